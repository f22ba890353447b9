"""The in-process queue: a queue table without a server, for nodes that are threads of one process.

See "Podracer architectures for scalable Reinforcement Learning" (https://arxiv.org/abs/2104.06272), "Decomposed Actors
and Learners with Sebulba": trajectories gather on the device that acts, are split along the batch and go from device to
device to those that learn. Only references go through the Python queue.
"""

from __future__ import annotations

import collections
import dataclasses
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from boonta.agents.base import Batch, Steps, Table
from boonta.nodes.hosts.arrays import place
from boonta.nodes.tables import contract
from boonta.nodes.tables.base import Drawn, WaitFor
from boonta.nodes.tables.freshness import fresh


class Bundle(NamedTuple):
    """Sequences of one group of environments, at most a batch of them.

    Attributes:
      shards: on each learning device its share, leaves [T, n / devices, ...].
      version: float32 [n], of the params that acted, a mean over a sequence's steps.
      acted: int32 [T, n], the same for each step.
    """

    shards: tuple[Steps, ...]
    version: np.ndarray
    acted: np.ndarray


class QueueTable:
    """A store of one queue table, for actors and a learner that share a process. It needs no Reverb and no TensorFlow.

    Args:
      table: a table of kind "queue"; its size bounds the sequences waiting, but a group's newest always fit.
      devices: the devices that learn, in the order of the learner's mesh; None is this process's first.
      groups: groups of environments that the learner takes sequences from in turn, for a run that is repeatable; None
        takes them as they come.

    Raises:
      ValueError: the table is no queue.
    """

    def __init__(self, table: Table, devices: Sequence[Any] | None = None, groups: int | None = None):
        if table.kind != "queue":
            raise ValueError(f"table {table.name!r}: this store keeps a queue, not a {table.kind!r}")
        self.table = table
        self.devices = tuple(jax.devices()[:1] if devices is None else devices)
        # All writers share its compilation.
        self.cut = jax.jit(_cut, static_argnames=("structure", "table", "pieces", "shards"))
        self._waiting: list[collections.deque[list[Bundle]]] = [collections.deque() for _ in range(groups or 1)]
        share = max(1, table.size // len(self._waiting))  # Each group may fill its own part of the queue.
        self._limit = contract.rate_limit(dataclasses.replace(table, size=share))
        self._changed = threading.Condition()
        self._turn = 0

    def width(self, num_envs: int) -> int:
        """Sequences in a piece: what a group of `num_envs` slots completes at once, or a batch if that is less.

        Raises:
          ValueError: pieces would not make batches, or don't divide over the learning devices.
        """
        batch_size, devices = self.table.batch_size, len(self.devices)
        width = min(num_envs, batch_size)
        if num_envs % width or batch_size % width:
            raise ValueError(
                f"{num_envs} environments step together, and batch_size is {batch_size}; one must divide by the other"
            )
        if width % devices:
            raise ValueError(
                f"{num_envs} environments step together, and batch_size is {batch_size}; the smaller must divide over "
                f"{devices} learning devices"
            )
        return width

    def open_writer(self, tables: Sequence[Table], num_envs: int, wait_for: WaitFor, group: int) -> QueueWriter:
        """A group's writer; see `nodes.tables.base.Store`."""
        return QueueWriter(self, num_envs, wait_for, group)

    def open_dataset(self, tables: Sequence[Table], sharding: Batch, wait_for: WaitFor, updates: int) -> QueueDataset:
        """The learner's batches; see `nodes.tables.base.Store`."""
        return QueueDataset(self, sharding, updates)

    def put(self, group: int, pieces: list[Bundle], timeout_s: float) -> bool | None:
        """Hands over what a group has completed; None if there was no room within `timeout_s`."""
        waiting = self._waiting[group % len(self._waiting)]

        def room() -> bool:
            return not waiting or self._limit.may_insert(_sequences(waiting), 0, _sequences([pieces]))

        with self._changed:
            if not self._changed.wait_for(room, timeout_s):
                return None
            waiting.append(pieces)
            self._changed.notify_all()
        return True

    def get(self, timeout_s: float) -> list[Bundle] | None:
        """What the group whose turn it is has completed; None if nothing has come within `timeout_s`."""
        waiting = self._waiting[self._turn]
        with self._changed:
            if not self._changed.wait_for(lambda: bool(waiting), timeout_s):
                return None
            self._turn = (self._turn + 1) % len(self._waiting)
            self._changed.notify_all()
            return waiting.popleft()


class QueueWriter:
    """Cuts a group's streams into sequences and sends them to the learning devices; see `nodes.tables.base.Writer`."""

    def __init__(self, store: QueueTable, num_envs: int, wait_for: WaitFor, group: int):
        width = store.width(num_envs)
        self._store = store
        self._group = group
        self._wait_for = wait_for
        self._bounds = range(0, num_envs, width)
        self._width = width
        self._rows: collections.deque[Steps] = collections.deque(maxlen=store.table.sequence_length)
        self._number = 0  # Rows of each slot so far.

    def append(self, steps: Steps) -> int:
        """Adds one raw step of every slot, leaves [B, ...], here or on a device; the sequences that it completed."""
        table = self._store.table
        self._rows.append(steps)
        self._number += 1
        if not contract.completes(table, self._number):
            return 0
        acted = np.stack([row.version for row in self._rows])
        version = contract.mean_version(acted)
        leaves, structure = gather(self._rows)
        pieces, shards = len(self._bounds), len(self._store.devices)
        cut = self._store.cut(leaves, structure, table, pieces=pieces, shards=shards)
        columns = [slice(start, start + self._width) for start in self._bounds]
        bundles = [Bundle(self._send(its), version[own], acted[:, own]) for own, its in zip(columns, cut)]
        while len(self._rows) > contract.overlap(table):
            self._rows.popleft()
        self._wait_for(f"room in {table.name}", lambda timeout_s: self._store.put(self._group, bundles, timeout_s))
        return len(version)

    def _send(self, shards: Sequence[Steps]) -> tuple[Steps, ...]:
        return tuple(jax.device_put(shard, device) for shard, device in zip(shards, self._store.devices))

    def close(self) -> None:
        """Nothing to free."""


class QueueDataset:
    """Makes batches on the learner's mesh of pieces that are there already; see `nodes.tables.base.Dataset`.

    Attributes:
      waits_for: the table.

    Raises:
      ValueError: the learner's mesh is not of the queue's devices.
    """

    def __init__(self, store: QueueTable, sharding: Batch, updates: int):
        mesh = sharding.probability.mesh
        if tuple(mesh.local_devices) != store.devices:
            raise ValueError(
                f"table {store.table.name!r} leads to {store.devices}; the learner is on {mesh.local_devices}"
            )
        size = store.table.batch_size
        self._whole_size = size * mesh.size // len(store.devices)  # B; other hosts' shards are there
        self.waits_for = store.table.name
        self._store = store
        self._columns = sharding.steps.reward  # The split of [T, B, ...].
        self._probability = place(np.ones(size, np.float32), sharding.probability)
        self._join = jax.jit(_join)
        self._held: list[Bundle] = []
        self._updates = updates  # Updates before the one that gets the next batch.
        self._stale = 0

    def next(self, timeout_s: float) -> tuple[Batch, Drawn] | None:
        """The next batch, leaves [T, B, ...], its keys all 0; None if it isn't there within `timeout_s`."""
        size = self._store.table.batch_size
        if not self._gather(timeout_s):
            return None
        number = size // len(self._held[0].version)
        pieces, self._held = self._held[:number], self._held[number:]
        shards = [self._join(own) if number > 1 else own[0] for own in zip(*(piece.shards for piece in pieces))]
        version = np.concatenate([piece.version for piece in pieces])
        drawn = Drawn(np.zeros(size, np.uint64), np.zeros(size, np.int32), version, self._stale)
        self._updates, self._stale = self._updates + 1, 0
        return Batch(jax.tree.map(self._whole, *shards), self._probability), drawn

    def _whole(self, *shards: Any) -> Any:
        """One array of its shards [T, B / devices, ...], which stay where they are."""
        shape = (shards[0].shape[0], self._whole_size, *shards[0].shape[2:])
        return jax.make_array_from_single_device_arrays(shape, self._columns, list(shards))

    def prioritise(self, drawn: Drawn, errors: np.ndarray) -> None:
        """Nothing: a queue hands every sequence out once."""

    def close(self) -> None:
        """Nothing: it reads nothing ahead."""

    def ready(self) -> bool:
        """Whether the next batch is complete."""
        return self._gather(timeout_s=0.0)

    def _gather(self, timeout_s: float) -> bool:
        """Takes pieces until the next batch is complete, and whether it is; those that are too old are left out."""
        end = time.monotonic() + timeout_s
        self._leave_out()
        while _sequences([self._held]) < self._store.table.batch_size:
            pieces = self._store.get(max(0.0, end - time.monotonic()))
            if pieces is None:
                return False
            self._held += pieces
            self._leave_out()
        return True

    def _leave_out(self) -> None:
        """Leaves out pieces that are too old; their slots have acted together, so they are of one age."""
        kept = [piece for piece in self._held if fresh(self._store.table, piece.acted, self._updates).all()]
        self._stale += _sequences([self._held]) - _sequences([kept])
        self._held = kept


def _sequences(waiting: Iterable[list[Bundle]]) -> int:
    return sum(len(piece.version) for pieces in waiting for piece in pieces)


def gather(rows: Sequence[Steps]) -> tuple[list[Any], Any]:
    """The rows of every leaf, and the structure of a row, whose nests may have lists of their own.

    Rows on the host become one array [T, B, ...], those on a device a list of [B, ...].
    """
    columns = zip(*map(jax.tree.leaves, rows))
    leaves = [np.stack(column) if isinstance(column[0], np.ndarray) else list(column) for column in columns]
    return leaves, jax.tree.structure(rows[0])


def _cut(rows: list[Any], structure: Any, table: Table, pieces: int, shards: int) -> list[list[Steps]]:
    """Stacks what `gather` gave, and splits it along the batch: the shards of each piece, leaves [T, ., ...]."""
    steps = jax.tree.unflatten(structure, [jnp.stack(leaf) if isinstance(leaf, list) else leaf for leaf in rows])
    leaves, structure = jax.tree.flatten(contract.with_one_core(table, steps))
    split = [jnp.split(leaf, pieces * shards, axis=1) for leaf in leaves]
    columns = [jax.tree.unflatten(structure, parts) for parts in zip(*split)]
    return [columns[i : i + shards] for i in range(0, len(columns), shards)]


def _join(shards: Sequence[Steps]) -> Steps:
    """Puts the shards of several pieces, which are on one device, side by side."""
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=1), *shards)
