"""Rows of the in-process replay: on a device they are what they are in the process's memory, and stay there."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from boonta.agents.base import Steps, Table
from boonta.nodes.base import Node
from boonta.nodes.hosts.placement import batch_sharding, make_mesh
from boonta.nodes.tables.host import HostStore
from boonta.nodes.tables.rows import Groups

pytestmark = pytest.mark.once

TABLE = Table("trajectories", "replay", 3, 2, batch_size=6, size=24, sampler="proportional", samples_per_insert=None)
AGAIN = dataclasses.replace(TABLE, name="again", writer="reanalyzer", period=3, share=0.5)
GROUPS = {"actor": Groups(2, 2), "reanalyzer": Groups(1, 4)}
DEVICE = jax.devices()[0]


def row(rng: np.random.Generator, num_envs: int) -> Steps:
    """A raw step of every slot, with leaves of several shapes and types."""
    observation = {"image": rng.integers(256, size=(num_envs, 3, 2), dtype=np.uint8), "far": rng.normal(size=num_envs)}
    numbers = [rng.normal(size=num_envs).astype(np.float32) for _ in range(4)]
    core = (rng.normal(size=(num_envs, 5)).astype(np.float32),)
    return Steps(observation, *numbers, (), np.full(num_envs, rng.integers(9), np.int32), core)


def fill(store: HostStore, table: Table, rows: int) -> None:
    groups = GROUPS[table.writer]
    for group in range(groups.number):
        writer = store.open_writer((table,), groups.num_envs, Node("actor").wait_for, group)
        rng = np.random.default_rng(group)
        for _ in range(rows):
            writer.append(row(rng, groups.num_envs))


def stores(*tables: Table) -> list[HostStore]:
    """In memory, and on the device."""
    writers = {table.writer: GROUPS[table.writer] for table in tables}
    return [HostStore(tables, writers, seed=1, device=device) for device in (None, DEVICE)]


def leaves(steps: Steps) -> list[Any]:
    """All but the versions."""
    return jax.tree.leaves(steps._replace(version=()))


ONE = dataclasses.replace(TABLE, size=4, period=7)  # The rows between two sequences are more than are kept.


@pytest.mark.parametrize(
    ("table", "rows"),
    [(TABLE, 3), (TABLE, 8), (TABLE, 40), (ONE, 40)],
    ids=["one sequence", "part of the ring", "around the ring", "one sequence a slot"],
)
def test_a_device_gives_the_sequences_that_memory_gives(table, rows):
    both = stores(table)
    for store in both:
        fill(store, table, rows)
    for most in (1, 5, 8, 64):
        expected, found = (store.open_stream(table, 1, 1).take(most, 0.0) for store in both)
        np.testing.assert_array_equal(found.keys, expected.keys)
        np.testing.assert_array_equal(found.probability, expected.probability)
        assert isinstance(found.steps.version, np.ndarray)
        np.testing.assert_array_equal(found.steps.version, expected.steps.version)
        for one, other in zip(leaves(found.steps), leaves(expected.steps), strict=True):
            assert one.devices() == {DEVICE} and one.shape == other.shape
            np.testing.assert_array_equal(one, other.astype(one.dtype))
        assert found.steps.core[0].shape == (1, most, 5)


def test_what_was_drawn_stays_as_it_was_when_its_rows_are_written_over():
    (_, store) = stores(TABLE)
    fill(store, TABLE, 3)
    stream = store.open_stream(TABLE, 1, 1)
    drawn = stream.take(4, 0.0).steps
    before = [np.array(leaf) for leaf in leaves(drawn)]
    writer = store.open_writer((TABLE,), 2, Node("actor").wait_for, 0)
    for _ in range(40):
        writer.append(row(np.random.default_rng(5), 2))
    for leaf, was in zip(leaves(drawn), before, strict=True):
        np.testing.assert_array_equal(leaf, was)


def test_what_a_reanalyzer_reads_stays_in_memory():
    past = dataclasses.replace(TABLE, name="past", share=0.0)
    fresh = dataclasses.replace(TABLE, share=0.5)
    _, store = stores(fresh, past, AGAIN)
    for tables in ((fresh, past), (AGAIN,)):
        groups = GROUPS[tables[0].writer]
        writer = store.open_writer(tables, groups.num_envs, Node("actor").wait_for, 0)
        for _ in range(3):
            writer.append(row(np.random.default_rng(0), groups.num_envs))
    for table in (fresh, past):
        assert isinstance(store.open_stream(table, 1, 1).take(1, 0.0).steps.reward, np.ndarray)
    assert store.open_stream(AGAIN, 1, 1).take(1, 0.0).steps.reward.devices() == {DEVICE}


@pytest.mark.parametrize("past", [(), (dataclasses.replace(TABLE, name="past", share=0.0),)], ids=["device", "both"])
def test_batches_of_two_tables_are_the_same_wherever_their_rows_are(past):
    fresh = dataclasses.replace(TABLE, share=0.5)
    tables, batches = (fresh, *past, AGAIN), []
    for store in stores(*tables):
        for own in ((fresh, *past), (AGAIN,)):
            groups, rng = GROUPS[own[0].writer], np.random.default_rng(3)
            writer = store.open_writer(own, groups.num_envs, Node("actor").wait_for, 0)
            for _ in range(9):
                writer.append(row(rng, groups.num_envs))
        sharding = batch_sharding(make_mesh(1, TABLE.batch_size))
        dataset = store.open_dataset((fresh, AGAIN), sharding, Node("learner").wait_for, updates=0)
        batches.append(dataset.next(0.0)[0])
    for one, other in zip(jax.tree.leaves(batches[0]), jax.tree.leaves(batches[1]), strict=True):
        assert one.sharding == other.sharding
        np.testing.assert_array_equal(one, other)
