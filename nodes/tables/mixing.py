"""Batches from several tables, each of which gives its share, on demand and in one thread."""

from __future__ import annotations

import collections
import dataclasses
import math
import time
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import tree

from boonta.agents.base import Batch, Steps, Table
from boonta.agents.tables import sequence_counts
from boonta.nodes.hosts.arrays import place
from boonta.nodes.tables import contract
from boonta.nodes.tables.base import Drawn, Piece, Stream

PATIENCE_S = 5.0
START_PATIENCE_S = 60.0  # Imports and compiling take their time.


@dataclasses.dataclass
class _TableSource:
    """A table, and what is known of it.

    Attributes:
      number: its number among the learner's tables.
      count: sequences of each batch that are to come from it.
      lacks: sequences of the batch in hand that it is still to give.
      prompt: it has supplied its part of the last batch.
      met: it has supplied anything.
    """

    number: int
    table: Table
    count: int
    stream: Stream
    lacks: int = 0
    prompt: bool = True
    met: bool = False


class MixedDataset:
    """Draws batches from one table or several and places them on the mesh; see `nodes.tables.base.Dataset`.

    Each table gives its share of a batch. The first table is waited for as long as it takes; what another can't supply
    within `patience_s` comes from the first instead. Then that other isn't waited for any more until it has a whole
    share ready again: what it has is taken, and the learner goes on at the shares it can get.

    Args:
      tables: the tables to draw from, as `nodes.tables.contract.learned_from` gives them.
      streams: one for each of them.
      sharding: a `Batch` of shardings for the leaves.
      patience_s: seconds that a batch waits for tables other than the first.
      start_patience_s: the same for tables whose writers are still starting, as nothing has come from them yet.

    Attributes:
      waits_for: the table that the next batch waits for, or waited for last.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        streams: Sequence[Stream],
        sharding: Batch,
        patience_s: float = PATIENCE_S,
        start_patience_s: float = START_PATIENCE_S,
    ):
        counts = sequence_counts(tables)
        self._sources = [_TableSource(*each) for each in zip(range(len(tables)), tables, counts, streams)]
        self._sharding = sharding
        self._patience_s, self._start_patience_s = patience_s, start_patience_s
        self.waits_for = tables[0].name
        # The batch in hand: what it has, whose turn it is to give more, and since when the others are waited for.
        self._pieces: list[tuple[int, Piece]] = []
        self._turns: collections.deque[_TableSource] = collections.deque()
        self._since = 0.0

    def next(self, timeout_s: float) -> tuple[Batch, Drawn] | None:
        """The next batch, leaves [T, B, ...]; None if it isn't there within `timeout_s`: what has come waits for more.

        Raises:
          RuntimeError: reading a table failed; names it.
        """
        end = time.monotonic() + timeout_s
        if not self._turns:
            self._begin()
        while self._turns:
            source = self._turns[0]
            patient_until = self._patient_until(source)
            self._take(source, min(end, patient_until))
            if source.lacks and time.monotonic() < patient_until:
                return None
            self._turns.popleft()
            self._end_turn(source)
        pieces, self._pieces = self._pieces, []
        batch, drawn = _join(pieces)
        return place(batch, self._sharding), drawn

    def prioritise(self, drawn: Drawn, errors: np.ndarray) -> None:
        """Gives the tables the errors [B] of sequences drawn from them; those dropped since don't matter.

        Raises:
          ValueError: one is below 0 or not finite.
        """
        for source in self._sources:
            own = drawn.table == source.number
            if own.any():
                source.stream.prioritise(drawn.keys[own], errors[own])

    def ready(self) -> bool:
        """Whether all tables have at once what the next batch lacks."""
        return all(source.stream.ready(source.lacks if self._turns else source.count) for source in self._sources)

    def close(self) -> None:
        """Frees what is read ahead."""
        for source in self._sources:
            source.stream.close()

    def _begin(self) -> None:
        first, *others = self._sources
        for source in self._sources:
            source.lacks = source.count
            source.stream.ask(source.count)
        self._turns.extend([first, *others, first])  # The first has a second turn, for what the others lack.

    def _patient_until(self, source: _TableSource) -> float:
        if source.number == 0:
            return math.inf
        if not source.prompt:
            return 0.0
        return self._since + (self._patience_s if source.met else self._start_patience_s)

    def _take(self, source: _TableSource, end: float) -> None:
        """Takes what a table lacks, or that part of it which comes until `end`."""
        while source.lacks:
            self.waits_for = source.table.name
            piece = source.stream.take(source.lacks, max(0.0, end - time.monotonic()))
            if piece is None:
                return
            self._pieces.append((source.number, piece))
            source.lacks -= len(piece.keys)

    def _end_turn(self, source: _TableSource) -> None:
        first = self._sources[0]
        if source is first:
            self._since = time.monotonic()
            return
        source.prompt = not source.lacks
        source.met |= source.lacks < source.count
        first.lacks, source.lacks = first.lacks + source.lacks, 0
        first.stream.ask(first.lacks)


def _join(pieces: Sequence[tuple[int, Piece]]) -> tuple[Batch, Drawn]:
    """The batch that pieces make, and where it came from: the pieces with the numbers of their tables."""
    steps: Steps = tree.map_structure(_side_by_side, *[piece.steps for _, piece in pieces])
    numbers = [np.full(len(piece.keys), number, np.int32) for number, piece in pieces]
    drawn = Drawn(
        keys=np.concatenate([piece.keys for _, piece in pieces]),
        table=np.concatenate(numbers),
        version=contract.mean_version(steps.version),
        stale=sum(piece.stale for _, piece in pieces),
    )
    return Batch(steps, np.concatenate([piece.probability for _, piece in pieces])), drawn


def _side_by_side(*leaves: Any) -> Any:
    """Pieces [T, S, ...] as one batch [T, B, ...], in the order of its rows; copied once, or not at all if it is so."""
    if not all(isinstance(leaf, np.ndarray) for leaf in leaves):  # Some are on a device.
        return leaves[0] if len(leaves) == 1 else jnp.concatenate(leaves, axis=1)
    if len(leaves) == 1:
        return np.ascontiguousarray(leaves[0])
    length, _, *shape = leaves[0].shape
    batch = np.empty((length, sum(leaf.shape[1] for leaf in leaves), *shape), leaves[0].dtype)
    return np.concatenate(leaves, axis=1, out=batch)
