"""Stores in this process, as `store_conformance` takes them."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import jax
import numpy as np

from boonta.agents.base import Batch, Steps, Table
from boonta.nodes.fused import schedule
from boonta.nodes.tables import contract
from boonta.nodes.tables.base import Drawn
from boonta.nodes.tables.device import make_device_table
from boonta.nodes.tables.host import HostStore
from boonta.nodes.tables.queue import QueueTable
from boonta.nodes.tables.rows import Groups
from boonta.tests.helpers.store_judge import SIGNATURE, SLOTS, Opened


def queue(table: Table) -> Opened:
    return Opened(QueueTable(table))


def host(table: Table) -> Opened:
    return Opened(HostStore([table], {table.writer: Groups(1, SLOTS)}))


def host_on_device(table: Table) -> Opened:
    return Opened(HostStore([table], {table.writer: Groups(1, SLOTS)}, device=jax.devices()[0]))


class Beside:
    """A store in this process with two more tables, smaller and larger, which get whatever the one that is judged gets.

    Args:
      table: the one.
      first: whether it is the first of the three.
    """

    def __init__(self, table: Table, first: bool):
        free = dataclasses.replace(table, samples_per_insert=None, min_size=1, sampler="uniform", errors=None)
        others = [dataclasses.replace(free, name=str(size), size=size) for size in (SLOTS, 3 * table.size)]
        self._tables = [table, *others] if first else [*others, table]
        self._store = HostStore(self._tables, {table.writer: Groups(1, SLOTS)})
        self.open_dataset = self._store.open_dataset

    def open_writer(self, tables, num_envs, wait_for, group):
        return self._store.open_writer(self._tables, num_envs, wait_for, group)


class DeviceStore:
    """The device's table as a fused program uses it: rounds of inserts, then of updates."""

    def __init__(self, table: Table):
        self.waits_for = table.name
        self._table = table
        self._replay = make_device_table(table, SLOTS)
        self._add, self._sample = jax.jit(self._replay.add), jax.jit(self._replay.sample)
        self._prioritise = jax.jit(self._replay.prioritise)
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), SIGNATURE)
        self._state = jax.jit(self._replay.init)(zeros)
        self._free = table.samples_per_insert is None
        self._round = schedule.ratio(table, SLOTS)
        self._inserts, self._updates = -(-table.min_size // SLOTS), 0  # Those left in this round.
        self._served = False
        self._rows = self._draws = 0
        self._changed = threading.Condition()

    def open_writer(self, tables, num_envs, wait_for, group):
        self._wait_for = wait_for
        return self

    def open_dataset(self, tables, sharding, wait_for, updates):
        return self

    def append(self, steps: Steps) -> int:
        self._rows += 1
        completes = contract.completes(self._table, self._rows)
        if completes:
            self._wait_for("the updates", self._poll)
        with self._changed:
            self._state = self._add(self._state, jax.tree.map(lambda leaf: leaf[None], steps))
            if completes:
                self._count_insert()
        return SLOTS * completes

    def _poll(self, timeout_s: float) -> bool | None:
        with self._changed:
            return self._changed.wait_for(lambda: self._inserts > 0 or self._free, timeout_s) or None

    def _count_insert(self) -> None:
        self._inserts -= 1
        if self._inserts == 0:
            self._inserts, self._updates = (0, self._round[1]) if self._served else (self._round[0], 0)
            self._served = True

    def ready(self) -> bool:
        return self._served and (self._free or self._updates > 0)

    def next(self, timeout_s: float):
        if not self.ready():
            return None
        with self._changed:
            self._draws += 1
            drawn = self._sample(self._state, jax.random.PRNGKey(self._draws))
            self._updates -= 1
            if self._updates == 0:
                self._inserts = self._round[0]
            self._changed.notify_all()
        self._indices = drawn.indices
        version = contract.mean_version(drawn.steps.version)
        keys = np.zeros(self._table.batch_size, np.uint64)
        return Batch(drawn.steps, drawn.probability), Drawn(keys, keys.astype(np.int32), version)

    def prioritise(self, drawn: Drawn, errors: np.ndarray) -> None:
        self._state = self._prioritise(self._state, self._indices, errors)

    def close(self) -> None:
        """Nothing is open."""


def device(table: Table) -> Opened:
    return Opened(DeviceStore(table))


class Broken:
    """Passes all on to a store in this process, chosen by the table's kind; a subclass breaks a rule.

    Attributes:
      kept: the table in the store; a queue is its store itself.
    """

    store_of = {"queue": queue, "replay": host}

    def __init__(self, table: Table):
        self.table = table
        self.store: Any = self.store_of[table.kind](table).store
        self.kept: Any = self.store.open_stream(table, 1, 1) if table.kind == "replay" else self.store

    def open_writer(self, *arguments):
        self.writer = self.store.open_writer(*arguments)
        return self

    def open_dataset(self, *arguments):
        self.dataset = self.store.open_dataset(*arguments)
        return self

    def append(self, steps):
        return self.writer.append(steps)

    def next(self, timeout_s):
        found = self.dataset.next(timeout_s)
        return found and (self.change(found[0]), found[1])

    def change(self, batch: Batch) -> Batch:
        return batch

    def prioritise(self, drawn, errors):
        self.dataset.prioritise(drawn, errors)

    def ready(self):
        return self.dataset.ready()

    def close(self):
        """Nothing is open."""
