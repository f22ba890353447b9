"""The in-process replay: a replay table without a server, for nodes that are threads of one process.

It keeps the same contract as the cluster's, `agents.base.Table`: the samplers, the rate at which sequences are drawn,
when it begins to serve, which sequences are dropped. Rows lie in this process's memory, each once, since a table holds
more of them than a device would; a batch is sent to the learning devices when it is drawn. It is not saved: a run that
is resumed fills it anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import tree

from boonta.agents.base import Batch, Steps, Table, owed_bounds, sequences_per_slot
from boonta.nodes.tables.priorities import make_priorities
from boonta.nodes.tables.queue import Drawn, gather

# JAX is imported where it is used, as in `nodes.tables.queue`.


class LocalReplay:
    """Takes the replay server's place where actors and learner share a process. No Reverb, no TensorFlow.

    Each group of environments has a ring of its own, and drops its own oldest sequences.

    Args:
      table: of kind "replay".
      groups: of environments, which write.
      num_envs: n, slots in each group.
      seed: of what is drawn.

    Raises:
      ValueError: the table is a queue, or too small for so many environments.
    """

    def __init__(self, table: Table, groups: int, num_envs: int, seed: int = 0):
        if table.kind != "replay":
            raise ValueError(f"table {table.name!r}: an in-process replay is no {table.kind!r}")
        slots = groups * num_envs
        per_slot = sequences_per_slot(table, slots)
        self.table = table
        self._groups, self._num_envs = groups, num_envs
        self._ring = (per_slot - 1) * table.period + table.sequence_length  # rows
        self._rows: Steps | None = None  # leaves [groups, ring, n, ...]
        # Of sequence `key`, the (block * groups + group) * n + slot, at key % size: two keys meet when one is dropped.
        self._size = per_slot * slots
        self._keys = np.full(self._size, -1, np.int64)
        self._weights = np.zeros(self._size)  # priority^alpha, with which it is drawn
        self._priorities = make_priorities(table)
        self._rng = np.random.default_rng(seed)
        self._changed = threading.Condition()
        self._inserted = self._sampled = 0
        self._lowest, self._highest = owed_bounds(table)

    def insert(self, group: int, block: int, steps: Steps, timeout_s: float) -> bool | None:
        """Adds a sequence of each slot of a group; None if the rate did not allow it within `timeout_s`.

        Args:
          group: that writes.
          block: number of its sequences, from 0.
          steps: the rows that the group has added to those of the block before, leaves [rows, n, ...].
          timeout_s: to wait.
        """
        table = self.table

        def allowed() -> bool:
            return self._inserted < table.min_size or self._owed(inserted=1) <= self._highest

        with self._changed:
            if not self._changed.wait_for(allowed, timeout_s):
                return None
            end = block * table.period + table.sequence_length
            self._write(group, np.arange(end - len(steps.reward), end) % self._ring, steps)
            keys = (block * self._groups + group) * self._num_envs + np.arange(self._num_envs)
            self._keys[keys % self._size] = keys
            self._weights[keys % self._size] = 1.0
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
            rows = (block * self.table.period + np.arange(self.table.sequence_length)[:, None]) % self._ring  # [T, B]
            steps = tree.map_structure(lambda leaf: leaf[group, rows, slot], self._rows)
        version = np.mean(steps.version, axis=0, dtype=np.float32)
        drawn = Drawn(keys.astype(np.uint64), np.zeros(len(keys), np.int32), version)
        return Batch(steps, probability), drawn

    def lets_through(self) -> bool:
        """Whether a batch may be drawn."""
        return self._inserted >= self.table.min_size and self._owed(sampled=self.table.batch_size) >= self._lowest

    def _owed(self, inserted: int = 0, sampled: int = 0) -> float:
        """Samples owed once so many more are inserted and sampled."""
        return (self._inserted + inserted) * (self.table.samples_per_insert or 0.0) - (self._sampled + sampled)

    def prioritise(self, keys: np.ndarray, errors: np.ndarray) -> None:
        """Makes priorities of the errors [B] of sequences that were drawn; those dropped since don't matter."""
        if self._priorities is None:
            return
        weights = self._priorities(keys, errors) ** self.table.priority_exponent
        with self._changed:
            places = keys.astype(np.int64) % self._size
            kept = self._keys[places] == keys.astype(np.int64)
            self._weights[places[kept]] = weights[kept]

    def open_writer(self, num_envs: int, wait_for: Callable[..., Any], group: int) -> LocalWriter:
        """A group's writer."""
        return LocalWriter(self, wait_for, group % self._groups)

    def open_dataset(self, sharding: Batch) -> LocalDataset:
        """The learner's batches."""
        return LocalDataset(self, sharding)

    def _write(self, group: int, rows: np.ndarray, steps: Steps) -> None:
        if self._rows is None:
            ring = (self._groups, self._ring)
            self._rows = tree.map_structure(lambda leaf: np.zeros((*ring, *leaf.shape[1:]), leaf.dtype), steps)

        def write(ring: np.ndarray, leaf: np.ndarray) -> None:
            ring[group, rows] = leaf

        tree.map_structure(write, self._rows, steps)

    def _choose(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Places of sequences, drawn one by one, and N p of each, float32.

        Sums over all that are kept, which takes less than a millisecond for 100,000 of them.
        """
        sums = np.cumsum(self._weights)
        points = np.minimum(self._rng.random(number) * sums[-1], np.nextafter(sums[-1], 0.0))
        places = np.searchsorted(sums, points, side="right")
        held = min(self._inserted, self._size)
        return places, (held * self._weights[places] / sums[-1]).astype(np.float32)


class LocalWriter:
    """Cuts a group's streams into sequences, as `nodes.tables.reverb.writer.Writer` does."""

    def __init__(self, replay: LocalReplay, wait_for: Callable[..., Any], group: int):
        self._replay = replay
        self._wait_for = wait_for
        self._group = group
        self._rows: list[Steps] = []
        self._block = 0

    def append(self, steps: Steps) -> int:
        """Adds one raw step of every slot, leaves [n, ...]; the number of sequences that it completed."""
        import jax

        table = self._replay.table
        self._rows.append(steps)
        if len(self._rows) < (table.period if self._block else table.sequence_length):
            return 0
        rows = jax.tree.map(
            lambda leaf: np.stack(jax.device_get(leaf)) if isinstance(leaf, list) else leaf,
            gather(self._rows),
            is_leaf=lambda node: isinstance(node, list),
        )
        self._rows.clear()
        block, self._block = self._block, self._block + 1
        self._wait_for(
            f"room in {table.name}", lambda timeout_s: self._replay.insert(self._group, block, rows, timeout_s)
        )
        return len(steps.reward)

    def close(self) -> None:
        """Nothing to free."""


class LocalDataset:
    """Sends what is drawn to the learner's mesh, as `nodes.tables.reverb.dataset.Dataset` does.

    Attributes:
      waits_for: the table.
    """

    def __init__(self, replay: LocalReplay, sharding: Batch):
        self.waits_for = replay.table.name
        self._replay = replay
        self._sharding = sharding

    def next(self, timeout_s: float) -> tuple[Batch, Drawn] | None:
        """The next batch, leaves [T, B, ...]; None if it isn't there within `timeout_s`."""
        from boonta.nodes.hosts.coordination import place

        found = self._replay.draw(timeout_s)
        return found and (place(found[0], self._sharding), found[1])

    def prioritise(self, drawn: Drawn, errors: np.ndarray) -> None:
        """Tells the table what an update made of sequences drawn from it."""
        self._replay.prioritise(drawn.keys, errors)

    def close(self) -> None:
        """Nothing: it reads nothing ahead."""

    def ready(self) -> bool:
        """Whether the table lets a batch through."""
        return self._replay.lets_through()
