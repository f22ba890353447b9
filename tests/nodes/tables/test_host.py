"""The in-process replay: rows kept once, the samplers, the rate, what is dropped."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding

from boonta.agents.base import Batch, Steps, Table
from boonta.nodes.base import Node
from boonta.nodes.tables.contract import PRIORITY_FLOOR as FLOOR
from boonta.nodes.tables.host import HostTable, HostWriter

TABLE = Table(
    name="trajectories",
    kind="replay",
    sequence_length=3,
    period=2,
    batch_size=64,
    size=12,
    sampler="uniform",
    samples_per_insert=None,
)


def row(t: int, num_envs: int, group: int = 0) -> Steps:
    """A raw step whose observation says when, which slot and which group it is of: 1000 g + 10 t + i."""
    number = (1000 * group + 10 * t + np.arange(num_envs)).astype(np.float32)
    return Steps({"n": jax.device_put(number)}, number, number, number, number, (), np.full(num_envs, t, np.int32))


def write(replay: HostTable, num_envs: int, rows: int, group: int = 0) -> HostWriter:
    writer = replay.open_writer([replay.table], num_envs, Node("actor").wait_for, group)
    for t in range(rows):
        writer.append(row(t, num_envs, group))
    return writer


def drawn_columns(replay: HostTable) -> set[tuple[int, ...]]:
    batch, _ = replay.draw(0.0)
    np.testing.assert_array_equal(batch.steps.observation["n"], batch.steps.reward)
    return {tuple(column.astype(int)) for column in batch.steps.reward.T}


def test_every_sequence_of_every_group_is_drawn():
    replay = HostTable(TABLE, groups=2, num_envs=2)
    assert replay.draw(0.0) is None
    for group in range(2):
        write(replay, 2, rows=5, group=group)
    starts = [1000 * group + 20 * block + slot for group in range(2) for block in range(2) for slot in range(2)]
    assert drawn_columns(replay) == {(n, n + 10, n + 20) for n in starts}


def test_a_group_drops_its_own_oldest_sequences():
    replay = HostTable(TABLE, groups=2, num_envs=2)  # three sequences a slot
    write(replay, 2, rows=11)  # five
    write(replay, 2, rows=3, group=1)
    kept = {(n, n + 10, n + 20) for block in (2, 3, 4) for n in (20 * block, 20 * block + 1)}
    assert drawn_columns(replay) == kept | {(1000, 1010, 1020), (1001, 1011, 1021)}


def test_uniform_probabilities_are_one():
    replay = HostTable(TABLE, groups=1, num_envs=4)
    write(replay, 4, rows=5)
    batch, drawn = replay.draw(0.0)
    np.testing.assert_allclose(batch.probability, np.ones(64), rtol=1e-6)
    starts = batch.steps.version[0]
    np.testing.assert_array_equal(drawn.version, starts + 1)


def test_errors_make_the_odds():
    table = dataclasses.replace(TABLE, sampler="proportional", priority_exponent=0.5, batch_size=4000)
    replay = HostTable(table, groups=1, num_envs=4)
    write(replay, 4, rows=3)
    replay.prioritise(np.arange(3, dtype=np.uint64), np.array([4.0, 0.0, 1.0]))
    batch, drawn = replay.draw(0.0)
    weights = np.sqrt([4.0 + FLOOR, FLOOR, 1.0 + FLOOR, 1.0])  # the last has not been drawn: it counts as 1
    odds = weights / weights.sum()
    counts = np.bincount(drawn.keys.astype(int), minlength=4)
    np.testing.assert_allclose(counts / 4000, odds, atol=0.03)
    np.testing.assert_allclose(batch.probability, 4 * odds[drawn.keys.astype(int)], rtol=1e-5)
    with pytest.raises(ValueError, match="priorities for table 'trajectories' must be finite and at least 0"):
        replay.prioritise(np.zeros(1, np.uint64), np.array([np.nan]))


def test_errors_of_dropped_sequences_do_not_matter():
    table = dataclasses.replace(TABLE, sampler="proportional", size=2)
    replay = HostTable(table, groups=1, num_envs=2)
    write(replay, 2, rows=5)
    replay.prioritise(np.array([0], np.uint64), np.array([1e6]))  # its place has another sequence by now
    batch, drawn = replay.draw(0.0)
    assert set(drawn.keys) == {2, 3}
    np.testing.assert_allclose(batch.probability, np.ones(64), rtol=1e-6)


def test_the_rate_blocks_whoever_is_ahead():
    """Twice each, batches of 4, from 4 on: the writer may be 2 * 2 * 4 + 4 samples ahead, the reader a batch."""
    table = dataclasses.replace(TABLE, samples_per_insert=2.0, batch_size=4, min_size=4, size=100)
    replay = HostTable(table, groups=1, num_envs=2)
    write(replay, 2, rows=3)
    assert not replay.lets_through()  # 2 of 4
    rows = [row(t, 2) for t in range(3, 5)]
    block = jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
    number = 1
    while replay.insert(0, number, block, 0.0):
        number += 1
    assert 2 * number == 10  # 20 samples are owed
    batches = 0
    while replay.draw(0.0) is not None:
        batches += 1
    assert batches == 6  # 24 samples: a batch ahead
    assert replay.insert(0, number, block, 0.0) and replay.draw(0.0) is not None


def test_the_dataset_sends_batches_to_the_learner():
    replay = HostTable(TABLE, groups=1, num_envs=2)
    device = jax.devices()[0]
    place = SingleDeviceSharding(device)
    dataset = replay.open_dataset([TABLE], Batch(place, place))
    assert dataset.next(0.0) is None and not dataset.ready()
    write(replay, 2, rows=3)
    batch, drawn = dataset.next(0.0)
    assert dataset.ready() and batch.steps.reward.devices() == {device} and batch.steps.reward.shape == (3, 64)
    dataset.prioritise(drawn, np.ones(64))


@pytest.mark.parametrize(("settings", "said"), [
    ({"size": 3}, "size is 3; with 4 environments it must be at least 4"),
    ({"size": 9, "min_size": 9}, "size is 9; with 4 environments it must be at least 12"),
])  # fmt: skip
def test_a_table_too_small_is_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        HostTable(dataclasses.replace(TABLE, **settings), groups=2, num_envs=2)


def test_a_queue_is_no_replay():
    with pytest.raises(ValueError, match="this store keeps a replay, not a 'queue'"):
        HostTable(Table("t", "queue", 5, 4, 1, 10), 1, 1)
