"""The writer: cuts each slot's endless stream of raw steps into its tables' sequences. Every step is stored once."""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tree

from boonta.agents.base import Steps, Table
from boonta.nodes.tables import contract
from boonta.nodes.tables.base import WaitFor
from boonta.nodes.tables.priorities import fresh_priorities, knows_errors, light
from boonta.nodes.tables.reverb.client import Client
from boonta.nodes.tables.reverb.library import load
from boonta.nodes.tables.reverb.signature import pack

ROWS_UNDER_WAY = 4  # Steps that share the wait for the server.
ITEMS_UNDER_WAY = 48  # Reverb warns of more than 50 that it has not confirmed.


class ReverbWriter:
    """Streams B slots into Reverb tables; see `nodes.tables.base.Writer`.

    Sequences of a slot start every `period` steps and overlap by the rest of their length; overlapping sequences share
    their chunks, and so do the tables, so a step is sent and stored once. Episodes are not aligned with sequences. All
    slots go through one stream, as columns of their own, so that sequences enter a table in the same order every time.

    Args:
      client: a client of the replay server.
      tables: the tables to write, as `nodes.tables.contract.written_by` gives them: every sequence goes into each.
      num_envs: slots, B.
      wait_for: the `wait_for` of the node that writes; a full table blocks in it.
    """

    def __init__(self, client: Client, tables: Sequence[Table], num_envs: int, wait_for: WaitFor):
        self._tables = tables
        self._num_envs = num_envs
        self._wait_for = wait_for
        self._writer = wait_for("the replay server", functools.partial(_open, client, tables[0].sequence_length))
        self._rows = 0
        # What errors are made of, of a sequence's rows, leaves [B, ...].
        self._newest: collections.deque[Steps] = collections.deque(maxlen=tables[0].sequence_length)
        self._knows_errors = any(map(knows_errors, tables))

    def append(self, steps: Steps) -> int:
        """Adds one raw step of every slot, leaves [B, ...]; the number of sequences that it completed."""
        table = self._tables[0]
        columns: list[Any] = [pack(steps._replace(core=()))]
        if (core := pack(steps.core)) is not None:
            columns.append(core if contract.keeps_core(table, self._rows) else [None] * self._num_envs)
        if self._rows == 0:
            self._configure(len(columns))
        self._writer.append(list(zip(*columns)))
        self._rows += 1
        if self._knows_errors:
            self._newest.append(light(steps))
        if not contract.completes(table, self._rows):
            return 0
        first = -table.sequence_length
        core_row = slice(first + table.core_row, first + table.core_row + 1 or None)
        newest = tree.map_structure(lambda *rows: np.stack(rows), *self._newest) if self._knows_errors else steps
        for one in self._tables:
            priorities = fresh_priorities(one, newest, self._num_envs)
            for (rows, *cores), priority in zip(self._writer.history, priorities.tolist()):
                sequence = [rows[first:], *[column[core_row] for column in cores]]
                self._writer.create_item(one.name, priority, sequence)
        self._wait_until_left(under_way(table, self._num_envs * len(self._tables)))
        return self._num_envs

    def flush(self) -> None:
        """Waits until all sequences are in their tables."""
        self._wait_until_left(0)

    def _wait_until_left(self, number: int) -> None:
        self._wait_for(f"room in {self._tables[0].name}", functools.partial(self._flushed, number))

    def close(self) -> None:
        self._writer.close()

    def _configure(self, columns: int) -> None:
        length = self._tables[0].sequence_length
        chunks = (chunk_length(self._tables[0]), 1)  # A core is needed without those of its neighbours.
        for slot in range(self._num_envs):
            for column in range(columns):
                self._writer.configure((slot, column), num_keep_alive_refs=length, max_chunk_length=chunks[column])

    def _flushed(self, number: int, timeout_s: float) -> bool | None:
        """Whether the server has taken all sequences except the last `number`; None if it hasn't within `timeout_s`."""
        try:
            self._writer.flush(number, timeout_ms=math.ceil(1000 * timeout_s))
        except load().DeadlineExceeded:
            return None
        return True


def _open(client: Client, length: int, timeout_s: float) -> Any:
    """A stream to the server; None if it doesn't answer within `timeout_s`, because it is still starting."""
    try:
        return client.trajectory_writer(length, get_signature_timeout_ms=math.ceil(1000 * timeout_s))
    except RuntimeError as error:
        if "Deadline Exceeded" not in str(error):
            raise
        return None


def under_way(table: Table, items: int) -> int:
    """Items that may be under way to the server while their slots go on.

    A sequence for each step would otherwise cost each the time of a message and its answer. Those of longer periods are
    waited for, so that what is written is there; so are those of a queue, whose runs are repeatable.

    Args:
      table: the table.
      items: number that a step completes, of all slots and tables.
    """
    if table.kind == "queue":
        return 0
    return max(0, min((ROWS_UNDER_WAY - 1) // table.period * items, ITEMS_UNDER_WAY - items))


def chunk_length(table: Table) -> int:
    """Steps in a chunk, the unit in which Reverb compresses and sends.

    A divisor of the period, so that chunks line up with sequences, and small against the overlap, so that a sample
    carries few steps of its neighbours.
    """
    most = max(contract.overlap(table), 4)
    return max(d for d in range(1, most + 1) if table.period % d == 0 and d <= table.sequence_length)
