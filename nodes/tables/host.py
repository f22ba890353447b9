"""The in-process replay: replay tables without a server, for nodes that are threads of one process.

It keeps the same contract as the cluster's, `nodes.tables.contract`: the samplers, the rate at which sequences are
drawn, when it begins to serve, which sequences are dropped. Rows lie in this process's memory or on a learning device,
each once; see `nodes.tables.rows`. It is not saved: a run that is resumed fills it anew.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import tree

from boonta.agents.base import Author, Batch, Steps, Table
from boonta.nodes.tables import contract
from boonta.nodes.tables.base import Piece, WaitFor
from boonta.nodes.tables.mixing import MixedDataset
from boonta.nodes.tables.priorities import fresh_priorities, knows_errors, light, make_priorities
from boonta.nodes.tables.queue import gather
from boonta.nodes.tables.rows import Groups, Rows
from boonta.nodes.tables.weights import Weights


class HostStore:
    """A store of replay tables, for nodes that share a process; see `nodes.tables.base.ReplayStore`.

    Each group of slots has a ring of rows, which all tables that it writes to share, so that a row is stored once; each
    table drops a group's own oldest sequences.

    Args:
      tables: tables of kind "replay".
      writers: the groups of each kind of node that writes.
      seed: the seed of the draws.
      device: the device that keeps the rows of tables which only the learner reads; None keeps all in this process's
        memory. A reanalyzer works on the host with what it reads.

    Raises:
      ValueError: a table is a queue, or too small for its writers' slots; or no node fills it, or a kind of node has no
        table to write to.
    """

    def __init__(self, tables: Sequence[Table], writers: Mapping[Author, Groups], seed: int = 0, device: Any = None):
        self._tables: dict[str, HostTable] = {}
        for table in tables:
            if table.writer not in writers:
                raise ValueError(f"table {table.name!r}: {table.writer}s fill it, and this process has none")
        for writer, groups in writers.items():
            own = contract.written_by(writer, tables)
            kept_on = device if all(table.share for table in own) else None
            rows = Rows(own, groups, kept_on)
            for table in own:
                self._tables[table.name] = HostTable(table, rows, np.random.default_rng((seed, len(self._tables))))

    def open_writer(self, tables: Sequence[Table], num_envs: int, wait_for: WaitFor, group: int) -> HostWriter:
        """A group's writer; see `nodes.tables.base.Store`.

        Raises:
          ValueError: the group has another number of environments than the rows were made for.
        """
        groups = self._tables[tables[0].name].rows.groups
        if num_envs != groups.num_envs:
            raise ValueError(
                f"table {tables[0].name!r}: its rows are of groups of {groups.num_envs} environments, and group "
                f"{group} has {num_envs}"
            )
        return HostWriter([self._tables[table.name] for table in tables], wait_for, group)

    def open_dataset(self, tables: Sequence[Table], sharding: Batch, wait_for: WaitFor, updates: int) -> MixedDataset:
        """The learner's batches; see `nodes.tables.base.Store`. Their size is that of the store's own tables."""
        own = [self._tables[table.name] for table in tables]
        return MixedDataset([each.table for each in own], own, sharding)

    def open_stream(self, table: Table, size: int, in_flight: int) -> HostTable:
        """A table's sequences; see `nodes.tables.base.ReplayStore`. None is drawn before its time."""
        return self._tables[table.name]


class HostTable:
    """A table: which of its writers' sequences it holds, with which weights; see `nodes.tables.base.Stream`.

    Attributes:
      table: what it is.
      rows: where its sequences' rows are. Whoever changes the table holds `rows.changed`.
      inserted, sampled: numbers of sequences so far.
    """

    def __init__(self, table: Table, rows: Rows, rng: np.random.Generator):
        self.table, self.rows = table, rows
        # Of sequence `key`, the (block * groups + group) * n + slot, at key % size: two keys meet when one is dropped.
        self._size = rows.groups.num_envs * rows.groups.number * rows.per_slot_of(table)
        self._keys = np.full(self._size, -1, np.int64)
        self._weights = Weights(self._size)  # Each sequence's priority^alpha, in proportion to which it is drawn.
        self._priorities = make_priorities(table)
        self._rng = rng
        self._limit = contract.rate_limit(table)
        self.inserted = self.sampled = 0
        self._held = 0  # Groups that are ahead drop their oldest before the table is full.

    def may_insert(self) -> bool:
        """Whether a group's sequences may come in."""
        return self._limit.may_insert(self.inserted, self.sampled)

    def insert(self, group: int, block: int, priorities: np.ndarray) -> None:
        """Adds a sequence of each slot of a group: those with this number, from 0, and these priorities [n]."""
        number, num_envs = self.rows.groups
        keys = (block * number + group) * num_envs + np.arange(num_envs)
        self._held += int(np.sum(self._keys[keys % self._size] < 0))
        self._keys[keys % self._size] = keys
        self._weights.set(keys % self._size, priorities**self.table.priority_exponent)
        self.inserted += num_envs

    def ask(self, sequences: int) -> None:
        """Nothing: sequences are drawn when they are taken."""

    def take(self, most: int, timeout_s: float) -> Piece | None:
        """As many of `most` sequences as the rate allows; None if it allows none within `timeout_s`."""
        with self.rows.changed:
            if not self.rows.changed.wait_for(lambda: self.ready(1), timeout_s):
                return None
            left = self._limit.samples_left(self.inserted, self.sampled)
            places, probability = self._choose(int(min(most, left)))
            keys = self._keys[places]
            self.sampled += len(keys)
            self.rows.changed.notify_all()
            block_and_group, slot = np.divmod(keys, self.rows.groups.num_envs)
            block, group = np.divmod(block_and_group, self.rows.groups.number)
            steps = self.rows.read(group, block, slot)
        return Piece(steps, probability, keys.astype(np.uint64))

    def _choose(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Places of sequences, drawn one by one, and N p of each, float32."""
        places = self._weights.draw(self._rng, number)
        return places, (self._held * self._weights.values[places] / self._weights.total).astype(np.float32)

    def ready(self, sequences: int) -> bool:
        return self._limit.may_sample(self.inserted, self.sampled, sequences)

    def prioritise(self, keys: np.ndarray, errors: np.ndarray) -> None:
        if self._priorities is None:
            return
        weights = self._priorities(keys, errors) ** self.table.priority_exponent
        with self.rows.changed:
            places = keys.astype(np.int64) % self._size
            kept = self._keys[places] == keys.astype(np.int64)
            self._weights.set(places[kept], weights[kept])

    def close(self) -> None:
        """Nothing: it reads nothing ahead."""


class HostWriter:
    """Cuts a group's streams into sequences, which go into each of the tables; see `nodes.tables.base.Writer`."""

    def __init__(self, tables: Sequence[HostTable], wait_for: WaitFor, group: int):
        self._tables = tables
        self._wait_for = wait_for
        self._group = group % tables[0].rows.groups.number
        self._knows_errors = any(knows_errors(each.table) for each in tables)
        self._rows: list[Steps] = []  # Those since the last sequence was complete.
        self._cores: collections.deque[Any] = collections.deque()  # Those of the sequences under way, oldest first.
        self._number = 0  # Rows of each slot so far.
        self._newest: Steps | None = None  # What errors are made of, of a sequence's rows, leaves [T, n, ...].

    def append(self, steps: Steps) -> int:
        """Adds one raw step of every slot, leaves [n, ...]; the number of sequences that it completed."""
        table = self._tables[0].table
        self._rows.append(steps._replace(core=()))
        if contract.keeps_core(table, self._number):
            self._cores.append(steps.core)
        self._number += 1
        if not contract.completes(table, self._number):
            return 0
        leaves, structure = gather(self._rows)
        stacked = [np.stack(jax.device_get(leaf)) if isinstance(leaf, list) else leaf for leaf in leaves]
        rows = jax.tree.unflatten(structure, stacked)._replace(core=jax.device_get(self._cores.popleft()))
        self._rows.clear()
        block, priorities = contract.completed(table, self._number) - 1, self._priorities(rows)
        self._wait_for(f"room in {table.name}", lambda timeout_s: self._insert(block, rows, priorities, timeout_s))
        return len(steps.reward)

    def _insert(self, block: int, steps: Steps, priorities: Sequence[np.ndarray], timeout_s: float) -> bool | None:
        """Adds the group's sequences to all tables; None if a table's rate did not allow it within `timeout_s`."""
        rows = self._tables[0].rows
        with rows.changed:
            if not rows.changed.wait_for(lambda: all(table.may_insert() for table in self._tables), timeout_s):
                return None
            rows.write(self._group, block, steps)
            for table, its_own in zip(self._tables, priorities):
                table.insert(self._group, block, its_own)
            rows.changed.notify_all()
        return True

    def _priorities(self, rows: Steps) -> list[np.ndarray]:
        """For each table the priorities [n] of the sequences that these rows complete."""
        if self._knows_errors:
            new, old = light(rows), self._newest
            if old is not None:
                new = tree.map_structure(lambda *leaves: np.concatenate(leaves), old, new)
            length = self._tables[0].table.sequence_length
            self._newest = tree.map_structure(lambda leaf: leaf[-length:], new)
        newest, slots = self._newest or rows, len(rows.reward[0])
        return [fresh_priorities(each.table, newest, slots) for each in self._tables]

    def close(self) -> None:
        """Nothing to free."""
