"""The dataset: batches of sequences from the learner's tables, time-major, and on its devices ahead of use."""

from __future__ import annotations

from boonta.agents import rlax_first  # noqa: F401

# isort: split

import dataclasses
import math
import queue
import threading
import time
from collections.abc import Sequence

import jax
import numpy as np
import reverb

from boonta.agents.base import Batch, Steps, Table
from boonta.nodes.tables import contract
from boonta.nodes.tables.base import Drawn
from boonta.nodes.tables.freshness import POLL_S, fresh
from boonta.nodes.tables.priorities import Priorities, make_priorities
from boonta.nodes.tables.reverb.streams import CONNECT_DEADLINE_S, Piece, Stream

PATIENCE_S = 5.0
START_PATIENCE_S = 60.0  # Imports and compiling take their time.


@dataclasses.dataclass
class _Source:
    """A table, and what the dataset knows of it.

    Attributes:
      count: sequences of each batch that are to come from it.
      drawn: sequences taken from it so far, by whoever.
      prompt: it has supplied its part of the last batch.
      met: it has supplied anything.
    """

    table: Table
    count: int
    stream: Stream
    priorities: Priorities | None
    drawn: int
    prompt: bool = True
    met: bool = False


class ReverbDataset:
    """Draws batches in a background thread and places them on the mesh; see `nodes.tables.base.Dataset`.

    Each table gives its share of a batch, in pieces of a size that divides all shares. The first table is waited for as
    long as it takes; what another can't supply within `patience_s` comes from the first instead. Then that other isn't
    waited for any more until it has a whole share ready again: what it has is taken, and the learner goes on at the
    shares it can get.

    Args:
      client: a client of the replay server.
      tables: the tables to draw from, as `nodes.tables.contract.learned_from` gives them.
      sharding: a `Batch` of shardings for the leaves.
      signature: one raw step in the agent's own classes, as `nodes.acting.local.step_shapes` gives it.
      updates: updates before the one that gets the first batch.
      ahead: batches held on the devices before they are asked for. On-policy agents want few: each is policy lag.
      patience_s: seconds that a batch waits for tables other than the first.
      start_patience_s: the same for tables whose writers are still starting, as nothing has come from them yet.

    Attributes:
      waits_for: the table that the next batch waits for, or waited for last.
    """

    def __init__(
        self,
        client: reverb.Client,
        tables: Sequence[Table],
        sharding: Batch,
        signature: Steps,
        updates: int = 0,
        ahead: int = 1,
        patience_s: float = PATIENCE_S,
        start_patience_s: float = START_PATIENCE_S,
    ):
        self._client = client
        self._sharding = sharding
        self._patience_s = patience_s
        self._start_patience_s = start_patience_s
        self.waits_for = tables[0].name
        # A table restored from a checkpoint has been drawn from before.
        infos = client.server_info(timeout=CONNECT_DEADLINE_S)
        counts = contract.sequence_counts(tables)
        self._bounded = tables[0].max_staleness is not None
        self._piece = 1 if self._bounded else math.gcd(*counts)
        self._updates = updates  # Updates before the one that gets the batch that is drawn next.
        self._sources = [
            _Source(
                table,
                count,
                Stream(client, table, signature, self._piece, in_flight=max(1, count // 4)),
                make_priorities(table),
                infos[table.name].rate_limiter_info.sample_stats.completed,
            )
            for table, count in zip(tables, counts)
        ]
        # Where data must be fresh: sequences taken, and those of the batch that is drawn that are fresh.
        self._taken = (self._sources[0].drawn, 0)
        self._error: BaseException | None = None
        self._batches: queue.Queue[tuple[Batch, Drawn]] = queue.Queue()
        self._space = threading.Semaphore(ahead)  # It is taken before drawing, so that no further batch ages in hand.
        threading.Thread(target=self._fill, daemon=True).start()

    def next(self, timeout_s: float) -> tuple[Batch, Drawn] | None:
        """The next batch, leaves [T, B, ...] on the devices, and where its sequences came from, on the host.

        None if it isn't there within `timeout_s`.
        """
        if self._error is not None:
            raise self._error
        try:
            batch, drawn = self._batches.get(timeout=timeout_s)
        except queue.Empty:
            return None
        self._space.release()
        for i, source in enumerate(self._sources):
            source.drawn += int(np.sum(drawn.table == i))
        self._sources[0].drawn += drawn.stale
        return batch, drawn

    def prioritise(self, drawn: Drawn, errors: np.ndarray) -> None:
        """Gives the tables the errors of sequences drawn from them; those dropped since don't matter.

        Args:
          drawn: as `next` gave it.
          errors: float [B].

        Raises:
          ValueError: one is below 0 or not finite.
        """
        for i, source in enumerate(self._sources):
            own = drawn.table == i
            if source.priorities is None or not own.any():
                continue
            keys = drawn.keys[own]
            updates = dict(zip(keys.tolist(), source.priorities(keys, errors[own]).tolist(), strict=True))
            self._client.mutate_priorities(source.table.name, updates)

    def ready(self) -> bool:
        """Whether the next batch is here, or the tables' rate limiters let it through."""
        if not self._batches.empty():
            return True
        if self._bounded:
            return self._ready_when_fresh()
        infos = self._client.server_info()
        return all(_lets_through(infos[source.table.name], source) for source in self._sources)

    def close(self) -> None:
        """Frees what Reverb reads ahead."""
        for source in self._sources:
            source.stream.close()

    def _fill(self) -> None:
        try:
            while True:
                self._space.acquire()
                pieces, stale = self._draw_fresh() if self._bounded else (self._draw(), 0)
                self._batches.put(self._place(pieces, stale))
                self._updates += 1
        except BaseException as error:  # It is handed to whoever asks for the next batch.
            self._error = error

    def _draw(self) -> list[tuple[int, Piece]]:
        """The pieces of a batch, each with the number of its table."""
        for source in self._sources:
            source.stream.ask(source.count // self._piece)
        first, *others = self._sources
        pieces = self._take(0, first.count, None)
        start = time.monotonic()
        for i, source in enumerate(others, start=1):
            end = start + (self._patience_s if source.met else self._start_patience_s)
            own = self._take(i, source.count, end if source.prompt else 0.0)
            source.prompt = len(own) * self._piece == source.count
            source.met |= bool(own)
            pieces += own
        lacking = first.table.batch_size - len(pieces) * self._piece
        first.stream.ask(lacking // self._piece)
        return pieces + self._take(0, lacking, None)

    def _draw_fresh(self) -> tuple[list[tuple[int, Piece]], int]:
        """A batch of single sequences, none of them too old, and how many were left out."""
        (source,) = self._sources
        taken, pieces = self._taken[0], list[tuple[int, Piece]]()
        stale = 0
        self._taken = (taken, 0)
        while len(pieces) < source.count:
            source.stream.ask(source.count - len(pieces))
            piece = source.stream.take(None)
            assert piece is not None
            if fresh(source.table, piece.steps.version.swapaxes(0, 1), self._updates).all():
                pieces.append((0, piece))
            else:
                stale += 1
            self._taken = (taken + len(pieces) + stale, len(pieces))
        return pieces, stale

    def _ready_when_fresh(self) -> bool:
        """Whether what has been written makes the next batch; waits until it is known."""
        (source,) = self._sources
        while self._batches.empty() and self._error is None:
            taken, held = self._taken
            inserted = self._client.server_info()[source.table.name].rate_limiter_info.insert_stats.completed
            if inserted - taken < source.count - held:
                return False
            time.sleep(POLL_S)
        return True

    def _take(self, i: int, count: int, end: float | None) -> list[tuple[int, Piece]]:
        """Pieces of `count` sequences from table i, or those that come until `end`."""
        pieces: list[tuple[int, Piece]] = []
        for _ in range(count // self._piece):
            self.waits_for = self._sources[i].table.name
            piece = self._sources[i].stream.take(None if end is None else max(0.0, end - time.monotonic()))
            if piece is None:
                break
            pieces.append((i, piece))
        return pieces

    def _place(self, pieces: list[tuple[int, Piece]], stale: int) -> tuple[Batch, Drawn]:
        steps = jax.tree.map(_join, *[piece.steps for _, piece in pieces])
        probability = np.concatenate([piece.probability for _, piece in pieces])
        drawn = Drawn(
            keys=np.concatenate([piece.keys for _, piece in pieces]),
            table=np.repeat([i for i, _ in pieces], self._piece).astype(np.int32),
            version=contract.mean_version(steps.version),
            stale=stale,
        )
        return jax.device_put(Batch(steps, probability), self._sharding), drawn


def _join(*leaves: np.ndarray) -> np.ndarray:
    """Pieces [S, T, ...] as one batch [T, B, ...], copied once."""
    length, *shape = leaves[0].shape[1:]
    batch = np.empty((length, sum(map(len, leaves)), *shape), leaves[0].dtype)
    return np.concatenate([leaf.swapaxes(0, 1) for leaf in leaves], axis=1, out=batch)


def _lets_through(info: reverb.reverb_types.TableInfo, source: _Source) -> bool:
    inserted = info.rate_limiter_info.insert_stats.completed
    return contract.rate_limit(source.table).may_sample(inserted, source.drawn, source.count)
