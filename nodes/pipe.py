"""The in-process queue: a queue table without a server, for nodes that are threads of one process."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tree

from agents.base import Batch, Steps, Table


class Drawn(NamedTuple):
    """Where a batch's sequences came from: what the learner must know of them, and the update need not.

    Attributes:
      keys: uint64 [B], of the sequences in their tables.
      table: int32 [B], which of the learner's tables.
      version: float32 [B], of the params that made the sequence's targets, a mean over its steps.
    """

    keys: np.ndarray
    table: np.ndarray
    version: np.ndarray


class Pipe:
    """Takes the replay server's place where actors and learner share a process. No Reverb, no TensorFlow.

    Args:
      table: of kind "queue"; its size bounds the sequences waiting.
    """

    def __init__(self, table: Table):
        if table.kind != "queue":
            raise ValueError(f"table {table.name!r}: an in-process pipe is a queue, not a {table.kind!r}")
        self.table = table
        self.sequences: queue.Queue[Steps] = queue.Queue(maxsize=table.size)


class PipeWriter:
    """Cuts each slot's stream into sequences, as `nodes.writer.Writer` does."""

    def __init__(self, pipe: Pipe, num_envs: int, wait_for: Callable[..., Any]):
        self._pipe = pipe
        self._num_envs = num_envs
        self._wait_for = wait_for
        self._steps: list[Steps] = []

    def append(self, steps: Steps) -> int:
        """Adds one raw step of every slot, leaves [B, ...]; the number of sequences that it completed."""
        table = self._pipe.table
        self._steps.append(steps)
        if len(self._steps) < table.sequence_length:
            return 0
        block = tree.map_structure(lambda *rows: np.stack(rows), *self._steps)  # [T, B, ...]
        del self._steps[: table.period]
        for i in range(self._num_envs):
            sequence = tree.map_structure(lambda leaf, i=i: leaf[:, i], block)  # [T, ...]
            self._wait_for(f"room in {table.name}", lambda timeout, s=sequence: _put(self._pipe.sequences, s, timeout))
        return self._num_envs

    def close(self) -> None:
        """Nothing to free."""


class PipeDataset:
    """Stacks sequences into batches on the mesh, as `nodes.dataset.Dataset` does.

    Attributes:
      waits_for: the table.
    """

    def __init__(self, pipe: Pipe, sharding: Batch):
        self.waits_for = pipe.table.name
        self._pipe = pipe
        self._sharding = sharding
        self._held: list[Steps] = []

    def next(self, timeout_s: float) -> tuple[Batch, Drawn] | None:
        """The next batch, leaves [T, B, ...], its keys all 0; None if it isn't there within `timeout_s`."""
        size = self._pipe.table.batch_size
        try:
            while len(self._held) < size:
                self._held.append(self._pipe.sequences.get(timeout=timeout_s))
        except queue.Empty:
            return None
        import jax  # here, since actors that leave acting to another node import this module and load no JAX

        steps = jax.tree.map(lambda *sequences: np.stack(sequences, axis=1), *self._held)
        self._held.clear()
        version = np.mean(steps.version, axis=0, dtype=np.float32)
        drawn = Drawn(np.zeros(size, np.uint64), np.zeros(size, np.int32), version)
        return jax.device_put(Batch(steps, np.ones(size, np.float32)), self._sharding), drawn

    def prioritise(self, drawn: Drawn, errors: np.ndarray) -> None:
        """Nothing: a queue hands every sequence out once."""

    def ready(self) -> bool:
        """Whether the next batch is complete."""
        return len(self._held) + self._pipe.sequences.qsize() >= self._pipe.table.batch_size


def _put(sequences: queue.Queue, sequence: Steps, timeout_s: float) -> bool | None:
    try:
        sequences.put(sequence, timeout=timeout_s)
    except queue.Full:
        return None
    return True


def open_writer(replay: Any, tables: Sequence[Table], num_envs: int, wait_for: Callable[..., Any]) -> Any:
    """A writer into tables of `replay`: a `Pipe`, which has but one, or a `reverb.Client`.

    Reverb, and TensorFlow with it, is imported only in the second case, where data crosses a process.
    """
    if isinstance(replay, Pipe):
        return PipeWriter(replay, num_envs, wait_for)
    from nodes.writer import Writer

    return Writer(replay, tables, num_envs, wait_for)


def open_dataset(replay: Any, tables: Sequence[Table], sharding: Batch) -> Any:
    """A dataset that reads tables of `replay`: a `Pipe`, which has but one, or a `reverb.Client`."""
    if isinstance(replay, Pipe):
        return PipeDataset(replay, sharding)
    from nodes.dataset import Dataset

    return Dataset(replay, tables, sharding)
