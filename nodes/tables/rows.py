"""The rows of the in-process replay, each once: in this process's memory, or on a learning device.

On a device a row is sent once, when it is written, and a batch is gathered where it is learned from. In the process's
memory a batch is gathered there, and each of its rows is sent again whenever it is drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import tree

from boonta.agents.base import Nest, Steps, Table
from boonta.nodes.tables import contract


class Groups(NamedTuple):
    """The groups of slots in which one kind of node writes.

    Attributes:
      number: how many there are.
      num_envs: n, slots in each.
    """

    number: int
    num_envs: int


class Rows:
    """The rows that one kind of node writes, in a ring for each group, and the cores of its sequences.

    Args:
      tables: the tables over them.
      groups: the groups that write.
      device: the device that keeps them; None keeps them in this process's memory.

    Attributes:
      groups: the groups that write.
      changed: guards the rows and their tables, and tells of each sequence that comes in or is drawn.

    Raises:
      ValueError: a table is a queue, or too small for the groups' slots.
    """

    def __init__(self, tables: Sequence[Table], groups: Groups, device: Any = None):
        for table in tables:
            if table.kind != "replay":
                raise ValueError(f"table {table.name!r}: this store keeps a replay, not a {table.kind!r}")
        self.groups = groups
        self.changed = threading.Condition()
        self._table = tables[0]  # All have sequences of the same rows.
        self._per_slot = max(map(self.per_slot_of, tables))
        self._ring = contract.rows_of(self._table, self._per_slot)
        self._memory: _Memory = _Host() if device is None else _Device(device)
        # Versions are always on the host: the learner wants their means with each batch, and would wait for a device.
        self._versions: Nest = None  # [groups, ring, n].
        self._rows: Nest = None  # `Steps` without versions and cores, leaves [groups, ring, n, ...].
        self._cores: Nest = ()  # Those of the sequences, leaves [groups, per_slot, n, ...].

    def per_slot_of(self, table: Table) -> int:
        """How many of a table's sequences each slot keeps."""
        return contract.sequences_per_slot(table, self.groups.number * self.groups.num_envs)

    def write(self, group: int, block: int, steps: Steps) -> None:
        """Writes the rows that a group has added, and the core of its sequences.

        Args:
          group: the number of the group.
          block: number of its sequences, from 0.
          steps: the rows since those of the block before, leaves [rows, n, ...], and the one core of these sequences,
            leaves [n, ...].
        """
        core, steps = steps.core, tree.map_structure(lambda leaf: leaf[-self._ring :], steps._replace(core=()))
        version, steps = steps.version, steps._replace(version=())
        end = contract.rows_of(self._table, block + 1)
        rows = np.arange(end - len(steps.reward), end) % self._ring  # Unique: a duplicate would lose one row.
        if self._rows is None:
            kept = (self.groups.number, self._ring)
            self._versions = _Host().make(kept, version[0])
            self._rows = self._memory.make(kept, tree.map_structure(lambda leaf: leaf[0], steps))
            self._cores = self._memory.make((self.groups.number, self._per_slot), core)
        self._versions = _Host().write(self._versions, (group, rows), version)
        self._rows = self._memory.write(self._rows, (group, rows), steps)
        self._cores = self._memory.write(self._cores, (group, block % self._per_slot), core)

    def read(self, group: np.ndarray, block: np.ndarray, slot: np.ndarray) -> Steps:
        """The sequences of these groups [S], with these numbers [S], of these slots [S]: leaves [T, S, ...]."""
        rows = contract.first_row(self._table, block) + np.arange(self._table.sequence_length)[:, None]  # [T, S]
        places = (group, rows % self._ring, slot)
        steps: Steps = self._memory.read(self._rows, places)
        core = self._memory.read(self._cores, (group, block[None] % self._per_slot, slot))
        return steps._replace(version=_Host().read(self._versions, places), core=core)


class _Memory(Protocol):
    """Where the leaves of a nest are kept, and how they are changed and read."""

    def make(self, kept: tuple[int, ...], like: Nest) -> Nest:
        """Zeros [*kept, *leaf.shape] for each leaf of `like`."""
        ...

    def write(self, kept: Nest, places: tuple[Any, ...], leaves: Nest) -> Nest:
        """What is kept, with `leaves` at these places; what it was before must not be used again."""
        ...

    def read(self, kept: Nest, places: tuple[Any, ...]) -> Nest:
        """What lies at these places [..., S]: leaves [..., S, ...]."""
        ...


class _Host:
    """NumPy's arrays."""

    def make(self, kept: tuple[int, ...], like: Nest) -> Nest:
        return tree.map_structure(lambda leaf: np.zeros((*kept, *leaf.shape), leaf.dtype), like)

    def write(self, kept: Nest, places: tuple[Any, ...], leaves: Nest) -> Nest:
        def write(array: np.ndarray, leaf: np.ndarray) -> np.ndarray:
            array[places] = leaf
            return array

        return tree.map_structure(write, kept, leaves)

    def read(self, kept: Nest, places: tuple[Any, ...]) -> Nest:
        return tree.map_structure(lambda array: array[places], kept)


class _Device:
    """JAX's arrays on one device."""

    def __init__(self, device: Any):
        def write(kept: Nest, places: tuple[Any, ...], leaves: Nest) -> Nest:
            return jax.tree.map(lambda array, leaf: array.at[places].set(leaf), kept, leaves)

        def read(kept: Nest, places: tuple[Any, ...]) -> Nest:
            return jax.tree.map(lambda array: array[places], kept)

        self._device = device
        self._write, self._read = jax.jit(write, donate_argnums=0), jax.jit(read)  # It writes in place.

    def make(self, kept: tuple[int, ...], like: Nest) -> Nest:
        like = jax.device_put(like, self._device)  # It says what becomes of dtypes of 64 bits.
        return jax.tree.map(lambda leaf: jnp.zeros((*kept, *leaf.shape), leaf.dtype, device=self._device), like)

    def write(self, kept: Nest, places: tuple[Any, ...], leaves: Nest) -> Nest:
        return self._write(kept, places, jax.device_put(leaves, self._device))

    def read(self, kept: Nest, places: tuple[Any, ...]) -> Nest:
        """See `_Memory`. Each size is compiled by itself, so it is rounded up to a power of two."""
        number = places[0].shape[-1]
        rounded = np.minimum(np.arange(1 << (number - 1).bit_length()), number - 1)
        read = self._read(kept, tuple(place[..., rounded] for place in places))
        return read if len(rounded) == number else jax.tree.map(lambda leaf: leaf[:, :number], read)
