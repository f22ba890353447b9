"""What a store of tables looks like to the nodes that write to it and to the learner that reads it.

A node is given a store, and asks it for a writer, a dataset or a stream. There are three stores. `ReverbStore` in
`nodes.tables.reverb.store` is for nodes that are processes of their own; `nodes.tables.queue.QueueTable` and
`nodes.tables.host.HostStore` are for threads of one process. A fused program has no such store, for it keeps its table
as a value that pure functions change: `nodes.tables.device.DeviceTable`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from boonta.agents.base import Batch, Steps, Table

WaitFor = Callable[..., Any]  # `nodes.base.Node.wait_for`


class Drawn(NamedTuple):
    """The origin of a batch's sequences, which the learner must know; the update doesn't need it.

    Attributes:
      keys: uint64 [B], of the sequences in their tables; 0 from a queue, which hands each out once.
      table: int32 [B], which of the learner's tables.
      version: float32 [B], of the params that made the sequence's targets, a mean over its steps.
      stale: how many sequences were left out before, as too old; see `nodes.tables.freshness`.
    """

    keys: np.ndarray
    table: np.ndarray
    version: np.ndarray
    stale: int = 0


class Piece(NamedTuple):
    """Sequences drawn together from one table, on the host; steps, except their versions, may be on a device.

    Attributes:
      steps: `Steps`, leaves [T, S, ...], in the agent's own classes.
      probability: float32 [S], with which each was drawn, over that of drawing uniformly; 1 from a queue.
      keys: uint64 [S], the table's.
      stale: how many sequences were left out before, as too old.
    """

    steps: Steps
    probability: np.ndarray
    keys: np.ndarray
    stale: int = 0


class Stream(Protocol):
    """One table's sequences, piece by piece."""

    def ask(self, sequences: int) -> None:
        """Ensures that at least this many sequences are ready or being fetched, including earlier requests."""
        ...

    def take(self, most: int, timeout_s: float) -> Piece | None:
        """A piece of `most` sequences, of those asked for, or of fewer; None if there is none within `timeout_s`.

        Args:
          most: how many it may have.
          timeout_s: how long to wait for the first.
        """
        ...

    def ready(self, sequences: int) -> bool:
        """Whether this many can be taken at once."""
        ...

    def prioritise(self, keys: np.ndarray, errors: np.ndarray) -> None:
        """Gives the table the errors [S] of sequences drawn from it; those dropped since don't matter.

        Raises:
          ValueError: an error is below 0 or not finite.
        """
        ...

    def close(self) -> None:
        """Frees what it reads ahead."""
        ...


class Writer(Protocol):
    """Cuts the streams of a group's slots into sequences, as `nodes.tables.contract` says."""

    def append(self, steps: Steps) -> int:
        """Adds one raw step of every slot, leaves [B, ...]; the number of sequences that it completed.

        Some of them may still be under way to their tables.
        """
        ...

    def close(self) -> None:
        """Frees what it holds."""
        ...


class Dataset(Protocol):
    """The learner's batches."""

    @property
    def waits_for(self) -> str:
        """The table that the next batch waits for, or waited for last."""
        ...

    def next(self, timeout_s: float) -> tuple[Batch, Drawn] | None:
        """The next batch, leaves [T, B, ...] in the agent's own classes; None if it isn't there within `timeout_s`."""
        ...

    def prioritise(self, drawn: Drawn, errors: np.ndarray) -> None:
        """Gives the tables the errors [B] of sequences drawn from them; those dropped since don't matter.

        Raises:
          ValueError: an error is below 0 or not finite.
        """
        ...

    def ready(self) -> bool:
        """Whether the next batch is here, or the tables' rate limits let it through."""
        ...

    def close(self) -> None:
        """Frees what it reads ahead."""
        ...


class Store(Protocol):
    """Keeps tables."""

    def open_writer(self, tables: Sequence[Table], num_envs: int, wait_for: WaitFor, group: int) -> Writer:
        """A writer of a group's sequences, which go into each of the tables.

        Args:
          tables: as `nodes.tables.contract.written_by` gives them.
          num_envs: B, slots of the group.
          wait_for: the `wait_for` of the node that writes; a full table blocks in it.
          group: number of the group.
        """
        ...

    def open_dataset(self, tables: Sequence[Table], sharding: Batch, wait_for: WaitFor, updates: int) -> Dataset:
        """The learner's batches.

        Args:
          tables: as `nodes.tables.contract.learned_from` gives them.
          sharding: a `Batch` of shardings for the leaves.
          wait_for: the `wait_for` of the node that reads; a store that is still starting is waited for in it.
          updates: updates before the one that gets the first batch; each gets one.
        """
        ...


class ReplayStore(Store, Protocol):
    """Keeps tables of kind "replay", which can be read one by one, too."""

    def open_stream(self, table: Table, size: int, in_flight: int) -> Stream:
        """A table's sequences, for a node that plays them back.

        Args:
          table: the table.
          size: S, sequences in a piece.
          in_flight: sequences that may be fetched ahead, and so are drawn before their time.
        """
        ...
