"""The table's contract: which rows make a sequence, when samples are owed, and what a sequence's priority is.

`agents.base.Table` holds the numbers; this module says what they mean. Every store of a table asks it: the Reverb
server, the queue and the replay in this process, the replay on the device. The tests' `helpers/store_conformance.py`
judges them.

Each slot is an endless stream of rows, counted from 0; an episode's end is a row like any other:

    row              0 … period-1 | period … 2*period-1 | …
    sequence 0       0 … sequence_length-1
    sequence 1                      period … period+sequence_length-1

Sequences overlap where the period is below the length, and leave rows out where it is above.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tree

from boonta.agents.base import Author, Steps, Table
from boonta.agents.tables import sequence_counts

# The priority of a sequence that was never drawn and whose agent has no error for it: 1 is a large error, and the first
# rank, so each sequence is likely to be drawn once.
NEW_PRIORITY = 1.0
# This is added to each error, so that a sequence whose error was 0 once is drawn again.
PRIORITY_FLOOR = 1e-3


# Which rows make a sequence.


def completes(table: Table, rows: int) -> bool:
    """Whether the last of a slot's first `rows` rows completes a sequence."""
    return rows >= table.sequence_length and (rows - table.sequence_length) % table.period == 0


def completed(table: Table, rows: Any) -> Any:
    """The number of sequences that the first `rows` rows of a slot complete; `rows` may be an array, or traced."""
    return (rows >= table.sequence_length) * ((rows - table.sequence_length) // table.period + 1)


def first_row(table: Table, sequence: Any) -> Any:
    """The row that a slot's sequence starts with; `sequence` may be an array."""
    return sequence * table.period


def rows_of(table: Table, sequences: int) -> int:
    """The number of rows from the first to the last of `sequences` consecutive sequences of a slot."""
    return first_row(table, sequences - 1) + table.sequence_length


def keeps_core(table: Table, row: Any) -> Any:
    """Whether a sequence keeps the `core` of this row of a slot; `row` may be an array, or traced."""
    return (row >= table.core_row) & ((row - table.core_row) % table.period == 0)


def with_one_core(table: Table, steps: Steps) -> Steps:
    """A sequence with the `core` of one of its rows: leaves [T, ...], of which those of `core` become [1, ...]."""
    row = slice(table.core_row, table.core_row + 1)
    return steps._replace(core=tree.map_structure(lambda leaf: leaf[row], steps.core))


def overlap(table: Table) -> int:
    """How many rows two consecutive sequences of a slot share."""
    return max(0, table.sequence_length - table.period)


def sequences_per_slot(table: Table, slots: int) -> int:
    """How many of a table's sequences each slot keeps, where each keeps its own.

    Raises:
      ValueError: the table is too small.
    """
    per_slot = table.size // slots
    if per_slot * slots < table.min_size:
        raise ValueError(
            f"table {table.name!r}: size is {table.size}; with {slots} environments it must be at least "
            f"{slots * -(-table.min_size // slots)}, for each keeps its own sequences"
        )
    return per_slot


# When samples are owed.


class RateLimit(NamedTuple):
    """When a table takes a sequence in, and when it gives samples out.

    The first `min_size` sequences owe no samples, as in DQN's own code and in fused programs; each one after them owes
    `samples_per_insert`. A reader may not bring the samples owed below `lowest`, nor a writer above `highest`.

    Attributes:
      samples_per_insert: how often a sequence is drawn on average.
      min_size: sequences that must have been inserted before any is sampled; 0 for a queue.
      lowest, highest: bounds of the samples owed.
    """

    samples_per_insert: float
    min_size: int
    lowest: float
    highest: float

    def owed(self, inserted: int, sampled: int) -> float:
        """Samples owed."""
        return max(0, inserted - self.min_size) * self.samples_per_insert - sampled

    def may_insert(self, inserted: int, sampled: int, number: int = 1) -> bool:
        """Whether `number` more sequences may come in.

        A store that inserts a whole group's sequences at once asks for one, and may exceed the limit by the others.
        """
        return self.owed(inserted + number, sampled) <= self.highest

    def may_sample(self, inserted: int, sampled: int, number: int) -> bool:
        """Whether `number` more samples may go out."""
        return number <= self.samples_left(inserted, sampled)

    def samples_left(self, inserted: int, sampled: int) -> float:
        """How many more samples may go out."""
        return self.owed(inserted, sampled) - self.lowest if inserted >= self.min_size else 0.0


def rate_limit(table: Table) -> RateLimit:
    """The limit that a table's settings make.

    A queue gives each sequence out once, and holds at most `size`. Where `samples_per_insert` is None a replay table is
    free: once `min_size` is reached, neither writer nor reader ever waits. Otherwise the samples owed stay between

        -B                                          the reader may be one batch ahead, which the dataset prefetches
        share * samples_per_insert * min_size + B   the writer may be a batch and min_size sequences ahead, or where the
                                                    table gives only a share of a batch, that share of them

    So sampled / (inserted - min_size) tends to `samples_per_insert`, whichever side is faster. While one side waits,
    the other can go on: the reader for a whole batch, the writer for its lead. min_size should cover the sequences that
    all groups of environments complete at one step; else they wait for the learner in the middle of an append. The
    bounds are always as far apart as Reverb demands, 2 * max(1, samples_per_insert), so that one side can always go on.
    """
    if table.kind == "queue":
        return RateLimit(1.0, 0, 0.0, float(table.size))
    if table.samples_per_insert is None:
        return RateLimit(1.0, table.min_size, -sys.float_info.max, sys.float_info.max)
    rate, batch_size = table.samples_per_insert, table.batch_size
    lead = max(table.share * rate * table.min_size + batch_size, 2 * max(1.0, rate))
    return RateLimit(rate, table.min_size, -float(batch_size), lead)


# Which tables a node writes to, and which the learner draws from.


def written_by(writer: Author, tables: Sequence[Table]) -> tuple[Table, ...]:
    """The tables that this kind of node fills, all with the same sequences.

    Raises:
      ValueError: there is none, or their sequences differ in length, period or core_row.
    """
    own = tuple(table for table in tables if table.writer == writer)
    if not own:
        raise ValueError(f"no table of the agent's is for the {writer} to write to: {[table.name for table in tables]}")
    shapes = {table.name: (table.sequence_length, table.period, table.core_row) for table in own}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"tables of one {writer} must hold sequences of one length, period and core_row: {shapes}")
    return own


def learned_from(tables: Sequence[Table]) -> tuple[Table, ...]:
    """The tables that the learner's batches are drawn from, in order: those with a share.

    Raises:
      ValueError: there is no table, the shares don't add up to 1, the tables differ in what a batch is, a batch has
        fewer sequences than there are tables, or tables that one kind of node fills don't keep to one pace.
    """
    if not tables:
        raise ValueError("the agent has no table, and a learner needs one to draw from")
    learned = tuple(table for table in tables if table.share > 0)
    shares = {table.name: table.share for table in learned}
    if not math.isclose(sum(shares.values()), 1.0):
        raise ValueError(f"shares of the learner's tables must add up to 1: {shares}")
    shapes = {table.name: (table.batch_size, table.sequence_length) for table in learned}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"the learner's tables must have one batch_size and sequence_length: {shapes}")
    if learned[0].batch_size < len(learned):
        raise ValueError(f"batch_size is {learned[0].batch_size}; it must be at least 1 for each of {list(shares)}")
    _require_one_pace(learned)
    return learned


def _require_one_pace(learned: Sequence[Table]) -> None:
    """Refuses tables with the same writer that allow different numbers of updates per sequence.

    The writer, which fills them together, would wait for samples from the one that allows fewer updates, and the
    learner for sequences of it.
    """
    paces: dict[Author, dict[str, float]] = {}
    for table, count in zip(learned, sequence_counts(learned)):
        per_insert = 1.0 if table.kind == "queue" else table.samples_per_insert
        if per_insert is not None:
            paces.setdefault(table.writer, {})[table.name] = per_insert / count
    for writer, pace in paces.items():
        if not math.isclose(min(pace.values()), max(pace.values())):
            raise ValueError(
                f"tables that the {writer} fills must allow one number of updates per sequence, samples_per_insert "
                f"over their sequences in a batch: {pace}"
            )


# What a table takes, and what a batch's sequences were made with.


def bytes_when_full(table: Table, step: Steps) -> int:
    """Bytes of a full table's steps, not compressed; sequences that overlap share their rows.

    Args:
      table: the table.
      step: one raw step, or its shapes and dtypes.
    """
    return table.size * _bytes_of(min(table.period, table.sequence_length), step)


def bytes_of_batch(table: Table, step: Steps) -> int:
    """Bytes of a batch's sequences; see `bytes_when_full` for the arguments."""
    return table.batch_size * _bytes_of(table.sequence_length, step)


def _bytes_of(rows: int, step: Steps) -> int:
    """Bytes of `rows` steps with one core."""

    def size(nest: Any) -> int:
        return sum(math.prod(leaf.shape) * np.dtype(leaf.dtype).itemsize for leaf in tree.flatten(nest))

    return rows * size(step._replace(core=())) + size(step.core)


def mean_version(version: np.ndarray) -> np.ndarray:
    """Version of the params that acted, or that reanalyzed: the mean over a sequence's steps, [T, B] -> float32 [B]."""
    return np.mean(version, axis=0, dtype=np.float32)
