"""The in-process replay: rows kept once, the samplers, the rate, what is dropped, several tables."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding

from boonta.agents.base import Batch, Steps, Table
from boonta.nodes.base import Node, Stopped
from boonta.nodes.tables.contract import rate_limit
from boonta.nodes.tables.host import HostStore, HostWriter
from boonta.nodes.tables.rows import Groups

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


def store(*tables: Table, groups: int = 1, num_envs: int = 2) -> HostStore:
    return HostStore(tables, {"actor": Groups(groups, num_envs)})


def write(
    replay: HostStore, num_envs: int, rows: int, group: int = 0, tables: tuple[Table, ...] = (TABLE,)
) -> HostWriter:
    writer = replay.open_writer(tables, num_envs, Node("actor").wait_for, group)
    for t in range(rows):
        writer.append(row(t, num_envs, group))
    return writer


def drawn_columns(replay: HostStore, table: Table = TABLE) -> set[tuple[int, ...]]:
    steps = replay.open_stream(table, 1, 1).take(512, 0.0).steps
    np.testing.assert_array_equal(steps.observation["n"], steps.reward)
    return {tuple(column.astype(int)) for column in steps.reward.T}


@pytest.mark.parametrize("groups", [range(2), range(4, 6)], ids=["of the first host", "of the third"])
def test_every_sequence_of_every_group_is_drawn(groups):
    replay = store(TABLE, groups=2)
    assert replay.open_stream(TABLE, 64, 64).take(64, 0.0) is None
    for group in groups:
        write(replay, 2, rows=5, group=group)
    starts = [1000 * group + 20 * block + slot for group in groups for block in range(2) for slot in range(2)]
    assert drawn_columns(replay) == {(n, n + 10, n + 20) for n in starts}


def test_lists_of_an_agents_own_stay_lists():
    replay = store(TABLE)
    writer = replay.open_writer((TABLE,), 2, Node("actor").wait_for, 0)
    for t in range(5):
        step = row(t, 2)
        writer.append(step._replace(extras=[step.reward, jax.device_put(step.reward)]))
    steps = replay.open_stream(TABLE, 1, 1).take(8, 0.0).steps
    assert isinstance(steps.extras, list)
    jax.tree.map(lambda leaf: np.testing.assert_array_equal(leaf, steps.reward), steps.extras)


def test_a_group_of_another_size_is_refused():
    with pytest.raises(ValueError, match="'trajectories': its rows are of groups of 2 environments, and group 1 has 3"):
        write(store(TABLE, groups=2), 3, rows=3, group=1)


def test_a_group_drops_its_own_oldest_sequences():
    replay = store(TABLE, groups=2)  # three sequences a slot
    write(replay, 2, rows=11)  # five
    write(replay, 2, rows=3, group=1)
    kept = {(n, n + 10, n + 20) for block in (2, 3, 4) for n in (20 * block, 20 * block + 1)}
    assert drawn_columns(replay) == kept | {(1000, 1010, 1020), (1001, 1011, 1021)}
    piece = replay.open_stream(TABLE, 1, 1).take(4, 0.0)
    np.testing.assert_allclose(piece.probability, 1.0)  # N p, though fewer are held than have come.


def test_the_dataset_sends_batches_to_the_learner():
    replay = store(TABLE)
    device = jax.devices()[0]
    place = SingleDeviceSharding(device)
    dataset = replay.open_dataset([TABLE], Batch(place, place), Node("learner").wait_for, updates=0)
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
        store(dataclasses.replace(TABLE, **settings), groups=2)


def test_a_table_that_nobody_fills_is_refused():
    with pytest.raises(ValueError, match="table 'again': reanalyzers fill it, and this process has none"):
        store(TABLE, dataclasses.replace(TABLE, name="again", writer="reanalyzer"))


def test_a_queue_is_no_replay():
    with pytest.raises(ValueError, match="this store keeps a replay, not a 'queue'"):
        store(Table("t", "queue", 5, 4, 1, 10))


def test_tables_of_one_writer_share_rows_and_each_drops_its_own_oldest():
    larger = dataclasses.replace(TABLE, name="past", size=20, share=0.0)
    for tables in ((TABLE, larger), (larger, TABLE)):
        replay = store(*tables)
        write(replay, 2, rows=3 + 2 * 11, tables=tables)  # twelve sequences a slot
        for table, kept in ((TABLE, range(6, 12)), (larger, range(2, 12))):
            starts = {20 * block + slot for block in kept for slot in range(2)}
            assert drawn_columns(replay, table) == {(n, n + 10, n + 20) for n in starts}
        first, second = (replay.open_stream(table, 1, 1).rows for table in tables)
        assert first is second


def test_tables_with_the_same_sequences_draw_by_themselves():
    tables = (TABLE, dataclasses.replace(TABLE, name="beside", share=0.0))
    replay = store(*tables)
    write(replay, 2, rows=11, tables=tables)
    one, other = (replay.open_stream(table, 1, 1).take(64, 0.0).keys.tolist() for table in tables)
    assert set(one) == set(other) and one != other


def test_a_writer_waits_until_all_its_tables_take_a_sequence():
    limited = dataclasses.replace(TABLE, name="limited", batch_size=2, samples_per_insert=1.0)
    tables, node = (TABLE, limited), Node("actor")
    replay = store(*tables)
    writer = replay.open_writer(tables, 2, node.wait_for, 0)
    node.meanwhile = node.stop  # After half a second of waiting.
    with pytest.raises(Stopped):
        for t in range(100):
            writer.append(row(t, 2))
    free, bounded = (replay.open_stream(table, 1, 1) for table in tables)
    assert free.inserted == bounded.inserted == 4  # One fills the table; 1.0 * 1 + 2 samples may be owed.
    assert bounded.take(64, 0.0).keys.shape == (5,)  # All that is owed, and a batch more.
    assert bounded.take(64, 0.0) is None and not bounded.ready(1)


def test_a_batch_of_two_writers_tables_has_the_shares_and_each_table_keeps_its_rate():
    fresh = dataclasses.replace(TABLE, batch_size=8, size=100, min_size=4, share=0.25, samples_per_insert=1.0)
    again = dataclasses.replace(fresh, name="again", writer="reanalyzer", share=0.75, samples_per_insert=3.0)
    replay = HostStore((fresh, again), {"actor": Groups(1, 2), "reanalyzer": Groups(1, 4)})
    place = SingleDeviceSharding(jax.devices()[0])
    dataset = replay.open_dataset((fresh, again), Batch(place, place), Node("learner").wait_for, updates=0)
    first, second = (replay.open_stream(table, 1, 1) for table in (fresh, again))
    actor = replay.open_writer((fresh,), 2, Node("actor").wait_for, 0)
    reanalyzer = replay.open_writer((again,), 4, Node("reanalyzer").wait_for, 0)
    batches, renewed, limit, ahead = 0, 0, rate_limit(again), 0.0
    for t in range(81):
        actor.append(row(t, 2))
        for _ in range(2):  # Reanalyzers are faster than needed, and often wait.
            if second.may_insert():
                reanalyzer.append(row(renewed, 4, group=1))
                renewed += 1
        ahead = max(ahead, limit.owed(second.inserted, second.sampled))
        while dataset.ready():
            batch, drawn = dataset.next(0.0)
            assert drawn.table.tolist() == [0] * 2 + [1] * 6
            assert ((np.asarray(batch.steps.reward)[0] >= 1000) == (drawn.table == 1)).all()
            batches += 1
    assert (first.sampled, second.sampled) == (2 * batches, 6 * batches)
    assert first.inserted == 80 and first.sampled == 80 - 4 + 8  # Four fill the table; at most a batch ahead.
    assert limit.highest - 12 < ahead <= limit.highest + 12  # Four sequences come in at once, drawn three times each.
