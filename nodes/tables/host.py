"""The in-process replay: a replay table without a server, for nodes that are threads of one process.

It keeps the same contract as the cluster's, `nodes.tables.contract`: the samplers, the rate at which sequences are
drawn, when it begins to serve, which sequences are dropped. Rows lie in this process's memory, each once, since a table
holds more of them than a device would; a batch is sent to the learning devices when it is drawn. It is not saved: a run
that is resumed fills it anew.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import tree

from boonta.agents.base import Batch, Steps, Table
from boonta.nodes.tables import contract
from boonta.nodes.tables.base import Drawn, WaitFor
from boonta.nodes.tables.priorities import make_priorities
from boonta.nodes.tables.queue import gather
from boonta.nodes.tables.weights import Weights

# JAX is imported where it is used, as in `nodes.tables.queue`.


class HostTable:
    """A store of one replay table, for actors and a learner that share a process. It needs no Reverb, no TensorFlow.

    Each group of environments has a ring of its own, and drops its own oldest sequences.

    Args:
      table: a table of kind "replay".
      groups: number of groups of environments, each of which writes.
      num_envs: n, slots in each group.
      seed: the seed of the draws.

    Raises:
      ValueError: the table is a queue, or too small for so many environments.
    """

    def __init__(self, table: Table, groups: int, num_envs: int, seed: int = 0):
        if table.kind != "replay":
            raise ValueError(f"table {table.name!r}: this store keeps a replay, not a {table.kind!r}")
        slots = groups * num_envs
        per_slot = contract.sequences_per_slot(table, slots)
        self.table = table
        self._groups, self._num_envs = groups, num_envs
        self._ring = contract.rows_of(table, per_slot)
        self._rows: Steps | None = None  # Leaves [groups, ring, n, ...].
        self._cores: Any = ()  # Those of the sequences, leaves [groups, per_slot, n, ...].
        self._per_slot = per_slot
        # Of sequence `key`, the (block * groups + group) * n + slot, at key % size: two keys meet when one is dropped.
        self._size = per_slot * slots
        self._keys = np.full(self._size, -1, np.int64)
        self._weights = Weights(self._size)  # Each sequence's priority^alpha, in proportion to which it is drawn.
        self._priorities = make_priorities(table)
        self._rng = np.random.default_rng(seed)
        self._changed = threading.Condition()
        self._inserted = self._sampled = 0
        self._limit = contract.rate_limit(table)

    def insert(self, group: int, block: int, steps: Steps, priorities: np.ndarray, timeout_s: float) -> bool | None:
        """Adds a sequence of each slot of a group; None if the rate did not allow it within `timeout_s`.

        Args:
          group: the number of the group that writes.
          block: number of its sequences, from 0.
          steps: the rows that the group has added to those of the block before, leaves [rows, n, ...], and the one
            core of these sequences, leaves [n, ...].
          priorities: [n], of the sequences.
          timeout_s: how long to wait.
        """

        def allowed() -> bool:
            return self._limit.may_insert(self._inserted, self._sampled)

        with self._changed:
            if not self._changed.wait_for(allowed, timeout_s):
                return None
            end = contract.rows_of(self.table, block + 1)
            self._write(group, block, np.arange(end - len(steps.reward), end) % self._ring, steps)
            keys = (block * self._groups + group) * self._num_envs + np.arange(self._num_envs)
            self._keys[keys % self._size] = keys
            self._weights.set(keys % self._size, priorities**self.table.priority_exponent)
            self._inserted += self._num_envs
            self._changed.notify_all()
        return True

    def draw(self, timeout_s: float) -> tuple[Batch, Drawn] | None:
        """A batch, leaves [T, B, ...]; None if the rate, or too few sequences, did not allow it within `timeout_s`."""
        with self._changed:
            if not self._changed.wait_for(self.lets_through, timeout_s):
                return None
            places, probability = self._choose(self.table.batch_size)
            keys = self._keys[places]
            self._sampled += len(keys)
            self._changed.notify_all()
            block_and_group, slot = np.divmod(keys, self._num_envs)
            block, group = np.divmod(block_and_group, self._groups)
            rows = contract.first_row(self.table, block) + np.arange(self.table.sequence_length)[:, None]  # [T, B]
            steps = tree.map_structure(lambda leaf: leaf[group, rows % self._ring, slot], self._rows)
            core = tree.map_structure(lambda leaf: leaf[group, block % self._per_slot, slot][None], self._cores)
        version = contract.mean_version(steps.version)
        batch = Batch(steps._replace(core=core), probability)
        return batch, Drawn(keys.astype(np.uint64), np.zeros(len(keys), np.int32), version)

    def lets_through(self) -> bool:
        """Whether a batch may be drawn."""
        return self._limit.may_sample(self._inserted, self._sampled, self.table.batch_size)

    def prioritise(self, keys: np.ndarray, errors: np.ndarray) -> None:
        """Makes priorities of the errors [B] of sequences that were drawn; those dropped since don't matter."""
        if self._priorities is None:
            return
        weights = self._priorities(keys, errors) ** self.table.priority_exponent
        with self._changed:
            places = keys.astype(np.int64) % self._size
            kept = self._keys[places] == keys.astype(np.int64)
            self._weights.set(places[kept], weights[kept])

    def open_writer(self, tables: Sequence[Table], num_envs: int, wait_for: WaitFor, group: int) -> HostWriter:
        """A group's writer; see `nodes.tables.base.Store`."""
        return HostWriter(self, wait_for, group % self._groups)

    def open_dataset(self, tables: Sequence[Table], sharding: Batch, updates: int = 0) -> HostDataset:
        """The learner's batches; see `nodes.tables.base.Store`."""
        return HostDataset(self, sharding)

    def _write(self, group: int, block: int, rows: np.ndarray, steps: Steps) -> None:
        """Writes rows into the group's ring, and the core of its sequences number `block`."""

        def make(length: int, shape: tuple[int, ...], leaf: np.ndarray) -> np.ndarray:
            return np.zeros((self._groups, length, *shape), leaf.dtype)

        def write(ring: np.ndarray, leaf: np.ndarray) -> None:
            ring[group, rows] = leaf

        def write_core(kept: np.ndarray, leaf: np.ndarray) -> None:
            kept[group, block % self._per_slot] = leaf

        steps, core = steps._replace(core=()), steps.core
        if self._rows is None:
            self._rows = tree.map_structure(lambda leaf: make(self._ring, leaf.shape[1:], leaf), steps)
            self._cores = tree.map_structure(lambda leaf: make(self._per_slot, leaf.shape, leaf), core)
        tree.map_structure(write, self._rows, steps)
        tree.map_structure(write_core, self._cores, core)

    def _choose(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Places of sequences, drawn one by one, and N p of each, float32."""
        places = self._weights.draw(self._rng, number)
        held = min(self._inserted, self._size)
        return places, (held * self._weights.values[places] / self._weights.total).astype(np.float32)


class HostWriter:
    """Cuts a group's streams into sequences; see `nodes.tables.base.Writer`."""

    def __init__(self, store: HostTable, wait_for: WaitFor, group: int):
        self._store = store
        self._wait_for = wait_for
        self._group = group
        self._rows: list[Steps] = []  # Those since the last sequence was complete.
        self._cores: collections.deque[Any] = collections.deque()  # Those of the sequences under way, oldest first.
        self._number = 0  # Rows of each slot so far.
        self._newest: Steps | None = None  # What errors are made of, of a sequence's rows, leaves [T, n, ...].

    def append(self, steps: Steps) -> int:
        """Adds one raw step of every slot, leaves [n, ...]; the number of sequences that it completed."""
        import jax

        table = self._store.table
        self._rows.append(steps._replace(core=()))
        if contract.keeps_core(table, self._number):
            self._cores.append(steps.core)
        self._number += 1
        if not contract.completes(table, self._number):
            return 0
        rows = jax.tree.map(
            lambda leaf: np.stack(jax.device_get(leaf)) if isinstance(leaf, list) else leaf,
            gather(self._rows),
            is_leaf=lambda node: isinstance(node, list),
        )
        rows = rows._replace(core=jax.device_get(self._cores.popleft()))
        self._rows.clear()
        block = contract.completed(table, self._number) - 1
        priorities = self._priorities(rows)
        self._wait_for(
            f"room in {table.name}",
            lambda timeout_s: self._store.insert(self._group, block, rows, priorities, timeout_s),
        )
        return len(steps.reward)

    def _priorities(self, rows: Steps) -> np.ndarray:
        """The priorities [n] of the sequences that these rows complete."""
        table = self._store.table
        if contract.knows_errors(table):
            new, old = contract.light(rows), self._newest
            if old is not None:
                new = tree.map_structure(lambda *leaves: np.concatenate(leaves), old, new)
            self._newest = tree.map_structure(lambda leaf: leaf[-table.sequence_length :], new)
        return contract.fresh_priorities(table, self._newest or rows, len(rows.reward[0]))

    def flush(self) -> None:
        """Nothing: sequences are there once they are complete."""

    def close(self) -> None:
        """Nothing to free."""


class HostDataset:
    """Sends what is drawn to the learner's mesh; see `nodes.tables.base.Dataset`.

    Attributes:
      waits_for: the table.
    """

    def __init__(self, store: HostTable, sharding: Batch):
        self.waits_for = store.table.name
        self._store = store
        self._sharding = sharding

    def next(self, timeout_s: float) -> tuple[Batch, Drawn] | None:
        """The next batch, leaves [T, B, ...]; None if it isn't there within `timeout_s`."""
        from boonta.nodes.hosts.coordination import place

        found = self._store.draw(timeout_s)
        return found and (place(found[0], self._sharding), found[1])

    def prioritise(self, drawn: Drawn, errors: np.ndarray) -> None:
        """Gives the table the errors of sequences drawn from it."""
        self._store.prioritise(drawn.keys, errors)

    def close(self) -> None:
        """Nothing: it reads nothing ahead."""

    def ready(self) -> bool:
        """Whether the table lets a batch through."""
        return self._store.lets_through()
