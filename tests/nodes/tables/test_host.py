"""The in-process replay: rows kept once, the samplers, the rate, what is dropped."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding

from boonta.agents.base import Batch, Steps, Table
from boonta.nodes.base import Node
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


@pytest.mark.parametrize(("settings", "message"), [
    ({"size": 3}, "size is 3; with 4 environments it must be at least 4"),
    ({"size": 9, "min_size": 9}, "size is 9; with 4 environments it must be at least 12"),
])  # fmt: skip
def test_a_table_too_small_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        HostTable(dataclasses.replace(TABLE, **settings), groups=2, num_envs=2)


def test_a_queue_is_no_replay():
    with pytest.raises(ValueError, match="this store keeps a replay, not a 'queue'"):
        HostTable(Table("t", "queue", 5, 4, 1, 10), 1, 1)
