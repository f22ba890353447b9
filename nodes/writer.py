"""The writer: cuts each slot's endless stream of raw steps into the table's sequences. Every step is stored once."""

from __future__ import annotations

from nodes import rlax_first  # noqa: F401

# isort: split

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import reverb
import tree

from agents.base import Steps, Table


class Writer:
    """Streams B slots into one Reverb table.

    Sequences of a slot start every `period` steps and overlap by the rest of their length; overlapping sequences share
    their chunks, so a step is sent and stored once. Episodes are not aligned with sequences.

    Args:
      client: of the replay server.
      table: the contract.
      num_envs: slots, B.
      wait_for: the node's `wait_for`; a full table blocks in it.
    """

    def __init__(self, client: reverb.Client, table: Table, num_envs: int, wait_for: Callable[..., Any]):
        self._table = table
        self._wait_for = wait_for
        self._writers = [client.trajectory_writer(table.sequence_length) for _ in range(num_envs)]
        self._length = 0
        self._configured = False

    def append(self, steps: Steps) -> int:
        """Adds one raw step of every slot, leaves [B, ...]; the number of sequences that it completed."""
        if not self._configured:
            self._configure(steps)
        leaves = [np.asarray(leaf) for leaf in tree.flatten(steps)]
        for i, writer in enumerate(self._writers):
            writer.append([leaf[i] for leaf in leaves])
        self._length += 1
        since_first = self._length - self._table.sequence_length
        if since_first < 0 or since_first % self._table.period:
            return 0
        for writer in self._writers:
            sequence = [column[-self._table.sequence_length :] for column in writer.history]
            writer.create_item(self._table.name, 1.0, sequence)
        for writer in self._writers:
            self._wait_for(f"room in {self._table.name}", lambda timeout, w=writer: _flushed(w, timeout))
        return len(self._writers)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()

    def _configure(self, steps: Steps) -> None:
        length = chunk_length(self._table)
        for writer in self._writers:
            for column in range(len(tree.flatten(steps))):
                writer.configure((column,), num_keep_alive_refs=self._table.sequence_length, max_chunk_length=length)
        self._configured = True


def chunk_length(table: Table) -> int:
    """Steps in a chunk, the unit in which Reverb compresses and sends.

    A divisor of the period, so that chunks line up with sequences, and small against the overlap, so that a sample
    carries few steps of its neighbours.
    """
    overlap = max(table.sequence_length - table.period, 4)
    return max(d for d in range(1, overlap + 1) if table.period % d == 0 and d <= table.sequence_length)


def _flushed(writer: Any, timeout_s: float) -> bool | None:
    try:
        writer.flush(timeout_ms=math.ceil(1000 * timeout_s))
    except reverb.errors.DeadlineExceededError:
        return None
    return True
