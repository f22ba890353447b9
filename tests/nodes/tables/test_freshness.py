"""Fresh data: what is left out, and which slots, learners and tables can't keep it."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from boonta.agents.base import Steps, Table
from boonta.nodes.base import Node
from boonta.nodes.hosts.placement import batch_sharding
from boonta.nodes.tables.freshness import fits, fresh, require_slots, usual_slots
from boonta.nodes.tables.queue import QueueTable

TABLE = Table("t", "queue", sequence_length=3, period=3, batch_size=4, size=16, max_staleness=1)


def write(queue: QueueTable, versions: list[int], slots: int = 2) -> None:
    """One sequence of each slot for each version."""
    writer = queue.open_writer([queue.table], slots, Node("actor").wait_for, 0)
    for version in np.repeat(versions, queue.table.sequence_length):
        row = np.full(slots, version, np.float32)
        writer.append(Steps(row, row, row, row, row, (), row.astype(np.int32)))


def open_dataset(queue: QueueTable, updates: int):
    mesh = Mesh(np.array(jax.devices()[:1]), ("batch",))
    return queue.open_dataset([queue.table], batch_sharding(mesh), Node("learner").wait_for, updates)


def test_an_update_learns_from_no_step_that_is_older_or_from_a_life_that_is_lost():
    version = np.array([[0, 4, 5, 6, 7], [3, 4, 6, 7, 7], [4, 4, 6, 6, 6]])
    assert fresh(TABLE, version, 6).tolist() == [False, False, True, False, False]
    assert fresh(dataclasses.replace(TABLE, max_staleness=3), version, 7).tolist() == [False, True, True, True, True]
    context = dataclasses.replace(TABLE, core_row=1, period=2)
    assert fresh(context, version, 4).tolist() == [True, True, False, False, False]
    assert fresh(dataclasses.replace(TABLE, max_staleness=None), version, 100).all()


def test_a_batch_has_nothing_that_is_too_old_and_what_was_left_out_is_counted():
    queue = QueueTable(TABLE)
    write(queue, [0, 1, 2, 9, 3])
    data = open_dataset(queue, updates=2)
    assert data.ready()
    batch, drawn = data.next(0.0)
    assert np.asarray(batch.steps.version)[0].tolist() == [1, 1, 2, 2] and drawn.stale == 2
    assert not data.ready()
    write(queue, [4, 2])  # Those of versions 9 and 4 are of a learner that died.
    batch, drawn = data.next(0.0)
    assert np.asarray(batch.steps.version)[0].tolist() == [3, 3, 2, 2] and drawn.stale == 4


def test_without_a_bound_everything_is_learned_from():
    queue = QueueTable(dataclasses.replace(TABLE, max_staleness=None))
    write(queue, [0, 9])
    batch, drawn = open_dataset(queue, updates=5).next(0.0)
    assert np.asarray(batch.steps.version)[0].tolist() == [0, 0, 9, 9] and drawn.stale == 0


@pytest.mark.parametrize(
    ("slots", "staleness", "fit"),
    [(4, 0, True), (1, 0, True), (3, 5, False), (8, 0, False), (8, 1, True), (12, 1, False)],
)
def test_slots_that_do_not_make_batches_are_refused(slots, staleness, fit):
    table = dataclasses.replace(TABLE, max_staleness=staleness)
    assert fits(table, slots) == fit
    if not fit:
        with pytest.raises(ValueError, match=rf"all actors have {slots} environments .* must divide batch_size"):
            require_slots("actor/0", table, slots)


def test_the_usual_number_of_slots_is_one_that_fits():
    fresh_table, any_table = dataclasses.replace(TABLE, max_staleness=0), dataclasses.replace(TABLE, max_staleness=None)
    assert [usual_slots(fresh_table, actors, 32) for actors in (1, 2, 4)] == [4, 2, 1]
    assert usual_slots(TABLE, 1, 32) == 8 and usual_slots(any_table, 3, 32) == 32
    assert usual_slots(fresh_table, 3, 32) == 32  # None fits, and the actors refuse it.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_staleness": -1}, "max_staleness is -1; it must be at least 0, or None"),
        ({"kind": "replay", "sampler": "uniform"}, "only a queue that actors fill"),
        ({"share": 0.5}, "only a queue that actors fill"),
        ({"period": 2}, "max_staleness is 1, and period 2; it must be at least 3"),
    ],
)
def test_tables_that_cannot_keep_it_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TABLE, **changes)
