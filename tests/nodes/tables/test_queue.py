"""The in-process queue, on one device: sequences cut, split, joined, in turn and bounded."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from boonta.agents.base import Batch, Steps, Table
from boonta.nodes.base import Node, Stopped
from boonta.nodes.tables.queue import QueueDataset, QueueTable, QueueWriter

TABLE = Table("trajectories", "queue", sequence_length=3, period=2, batch_size=4, size=8)


def row(t: int, num_envs: int, group: int = 0) -> Steps:
    """A raw step whose observation says when, which slot and which group it is of: 100 g + 10 t + i."""
    number = (100 * group + 10 * t + np.arange(num_envs)).astype(np.float32)
    return Steps({"n": jax.device_put(number)}, number, number, number, number, (), np.full(num_envs, t, np.int32))


def write(queue: QueueTable, num_envs: int, rows: int, group: int = 0) -> QueueWriter:
    writer = QueueWriter(queue, num_envs, Node("actor").wait_for, group)
    for t in range(rows):
        writer.append(row(t, num_envs, group))
    return writer


def dataset(queue: QueueTable) -> QueueDataset:
    mesh = Mesh(np.array(queue.devices), ("batch",))
    columns = NamedSharding(mesh, PartitionSpec(None, "batch"))
    return QueueDataset(queue, Batch(Steps(*[columns] * 7), NamedSharding(mesh, PartitionSpec("batch"))), updates=0)


def numbers(batch: Batch) -> list[list[float]]:
    np.testing.assert_array_equal(batch.steps.observation["n"], batch.steps.reward)
    return np.asarray(batch.steps.reward).astype(int).tolist()


def test_small_groups_are_joined_into_a_batch():
    queue = QueueTable(TABLE)
    write(queue, 2, rows=5)
    batch, drawn = dataset(queue).next(1.0)
    assert numbers(batch) == [[0, 1, 20, 21], [10, 11, 30, 31], [20, 21, 40, 41]]  # overlapping by a row
    assert drawn.version.tolist() == [1, 1, 3, 3] and drawn.table.tolist() == [0] * 4
    np.testing.assert_array_equal(batch.probability, np.ones(4))


@pytest.mark.parametrize("num_envs", [2, 3, 4])
def test_lists_of_an_agents_own_stay_lists(num_envs):
    queue = QueueTable(dataclasses.replace(TABLE, batch_size=num_envs))
    writer = QueueWriter(queue, num_envs, Node("actor").wait_for, 0)
    for t in range(3):
        step = row(t, num_envs)
        writer.append(step._replace(extras=[step.reward, {"a": [jax.device_put(step.reward)]}]))
    steps = dataset(queue).next(1.0)[0].steps
    assert jax.tree.structure(steps.extras) == jax.tree.structure([0, {"a": [0]}])
    jax.tree.map(lambda leaf: np.testing.assert_array_equal(leaf, steps.reward), steps.extras)


def test_all_pieces_of_a_batch_together_have_its_time(monkeypatch):
    queue = QueueTable(TABLE)
    write(queue, 1, rows=9)
    clock, given, get = [0.0], [], queue.get

    def slow(timeout_s):
        given.append(timeout_s)
        clock[0] += 0.4
        return get(0.0)

    monkeypatch.setattr("boonta.nodes.tables.queue.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(queue, "get", slow)
    assert dataset(queue).next(1.0) is not None
    np.testing.assert_allclose(given, [1.0, 0.6, 0.2, 0.0], atol=1e-9)


def test_a_large_group_is_split_into_several_updates():
    queue = QueueTable(TABLE)
    write(queue, 8, rows=3)
    data = dataset(queue)
    assert data.ready()
    assert numbers(data.next(0.0)[0]) == [[0, 1, 2, 3], [10, 11, 12, 13], [20, 21, 22, 23]]
    assert data.ready()
    assert numbers(data.next(0.0)[0]) == [[4, 5, 6, 7], [14, 15, 16, 17], [24, 25, 26, 27]]
    assert not data.ready() and data.next(0.0) is None


def test_groups_are_taken_in_turn_whoever_comes_first():
    queue = QueueTable(dataclasses.replace(TABLE, size=24), groups=2)
    write(queue, 4, rows=3, group=1)
    data = dataset(queue)
    assert data.next(0.0) is None
    write(queue, 4, rows=7, group=0)
    first = [numbers(data.next(0.0)[0])[0][0] for _ in range(3)]
    assert first == [0, 100, 20] and data.next(0.0) is None  # group 0 has more, and waits for group 1


def test_without_turns_they_are_taken_as_they_come():
    queue = QueueTable(TABLE)
    write(queue, 4, rows=3, group=1)
    write(queue, 4, rows=3, group=0)
    data = dataset(queue)
    assert [numbers(data.next(0.0)[0])[0][0] for _ in range(2)] == [100, 0]


def test_a_full_queue_blocks_its_writers():
    queue = QueueTable(TABLE)
    write(queue, 4, rows=5)  # 8 sequences: full
    (pieces,) = (queue.get(0.0),)
    assert queue.put(0, pieces, 0.0) is True and queue.put(0, pieces, 0.0) is None
    node = Node("actor")
    node.stop()
    writer = QueueWriter(queue, 4, node.wait_for, 0)
    with pytest.raises(Stopped):
        for t in range(3):
            writer.append(row(t, 4))


def test_each_of_the_groups_in_turn_may_fill_its_own_part_of_the_queue():
    queue = QueueTable(TABLE, groups=2)
    for group in range(2):
        write(queue, 4, rows=3, group=group)  # 4 sequences: its part is full.
    pieces = queue.get(0.0)
    assert queue.put(0, pieces, 0.0) is True
    assert queue.put(0, pieces, 0.0) is None and queue.put(1, pieces, 0.0) is None


def test_the_newest_of_a_group_larger_than_the_table_fits():
    queue = QueueTable(dataclasses.replace(TABLE, size=4))
    write(queue, 16, rows=3)
    assert len(queue.get(0.0)) == 4


@pytest.mark.parametrize(("num_envs", "devices", "message"), [
    (6, 1, "6 environments step together, and batch_size is 4; one must divide by the other"),
    (3, 1, "3 environments step together, and batch_size is 4; one must divide by the other"),
    (2, 4, "2 environments .* batch_size is 4; the smaller must divide over 4 learning devices"),
    (8, 3, "8 environments .* batch_size is 4; the smaller must divide over 3 learning devices"),
])  # fmt: skip
def test_batches_that_do_not_divide_are_refused(num_envs, devices, message):
    with pytest.raises(ValueError, match=message):
        QueueTable(TABLE, jax.devices()[:1] * devices).width(num_envs)


def test_a_learner_on_other_devices_is_refused():
    queue = QueueTable(TABLE, jax.devices()[:1] * 2)
    mesh = Mesh(np.array(jax.devices()[:1]), ("batch",))
    columns = NamedSharding(mesh, PartitionSpec(None, "batch"))
    with pytest.raises(ValueError, match="table 'trajectories' leads to .*; the learner is on"):
        QueueDataset(queue, Batch(Steps(*[columns] * 7), NamedSharding(mesh, PartitionSpec("batch"))), updates=0)
