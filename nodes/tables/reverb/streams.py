"""Reading a table in pieces: the one place where sequences come out of the replay server."""

from __future__ import annotations

import functools
import math
import queue
import threading
from collections.abc import Callable, Sequence

import numpy as np

from boonta.agents.base import Steps, Table
from boonta.nodes.tables import base
from boonta.nodes.tables.base import Piece
from boonta.nodes.tables.freshness import fresh
from boonta.nodes.tables.priorities import make_priorities
from boonta.nodes.tables.reverb.client import Client, Sample, Sampler
from boonta.nodes.tables.reverb.sharded import Shard, ShardedStream
from boonta.nodes.tables.reverb.signature import unpack_columns

POLL_S = 1.0  # Time for an answer of a server that may not be there yet,
RETRY_S = 0.1  # and between one that failed and the next call.


def open_stream(
    clients: Sequence[Client],
    table: Table,
    signature: Steps,
    size: int,
    in_flight: int | None,
    updates: int = 0,
) -> Stream | ShardedStream:
    """A table's sequences, from its one replay server, or from several that have equal parts of it.

    Args:
      clients: a client of each server.
      table: the whole table.
      signature, size, in_flight, updates: as for `Stream`.
    """
    if len(clients) == 1:
        return Stream(clients[0], table, signature, size, in_flight, updates)
    assert in_flight is not None  # None is for tables that bound the age of data, which only one server can keep.
    in_flight = max(1, in_flight // len(clients))

    def shard(client: Client) -> Shard:
        def open_part(arrived: Callable[[], None]) -> base.Stream:
            return Stream(client, table, signature, size, in_flight, updates, arrived)

        return Shard(open_part, functools.partial(client.mutate_priorities, table.name))

    return ShardedStream(table, [shard(client) for client in clients], size)


class Stream:
    """Draws a table's sequences in a background thread; see `nodes.tables.base.Stream`.

    It draws as many as were asked for, since what waits in hand grows old. Those that are too old for the update that
    they are drawn for are left out, see `nodes.tables.freshness`. A table that bounds their age fills whole batches.

    Args:
      client: a client of the replay server.
      table: the table to draw from.
      signature: one raw step in the agent's own classes.
      size: S, the number of sequences in every piece, of which all that are asked for must be a multiple.
      in_flight: number of sequences that Reverb fetches ahead, and so draws before their time; None draws those that
        were asked for and no others.
      updates: updates before the one that gets the first batch.
      arrived: called whenever there is another piece, or reading has failed.

    Attributes:
      stale: sequences that were left out so far.
    """

    def __init__(
        self,
        client: Client,
        table: Table,
        signature: Steps,
        size: int,
        in_flight: int | None,
        updates: int = 0,
        arrived: Callable[[], None] = lambda: None,
    ):
        self._client = client
        self._table = table
        self._signature = signature
        self._size = size
        self._in_flight = in_flight
        self._updates = updates
        self._arrived = arrived
        self._fresh = 0  # Sequences that were not left out.
        self.stale = 0
        self._asked = threading.Semaphore(0)
        self._ordered = 0  # Number of sequences that were asked for so far,
        self._taken = 0  # and of those that were taken.
        self._priorities = make_priorities(table)
        self._pieces: queue.Queue[Piece | BaseException] = queue.Queue()
        self._sampler: Sampler | None = None
        self._left: float = 0  # Sequences that the sampler still gives.
        self._closed = threading.Event()
        threading.Thread(target=self._draw, daemon=True).start()

    def ask(self, sequences: int) -> None:
        while self._ordered - self._taken < sequences:
            self._ordered += self._size
            self._asked.release()

    def take(self, most: int, timeout_s: float) -> Piece | None:
        """The next piece; see `nodes.tables.base.Stream.take`.

        Raises:
          RuntimeError: reading failed; names the table.
        """
        try:
            piece = self._pieces.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(piece, BaseException):
            self._pieces.put(piece)  # The next call must raise it again.
            raise RuntimeError(f"reading table {self._table.name!r} failed") from piece
        self._taken += self._size
        return piece

    def ready(self, sequences: int) -> bool:
        return self._pieces.qsize() * self._size >= sequences

    def prioritise(self, keys: np.ndarray, errors: np.ndarray) -> None:
        if self._priorities is not None:
            updates = dict(zip(keys.tolist(), self._priorities(keys, errors).tolist(), strict=True))
            self._client.mutate_priorities(self._table.name, updates)

    def close(self) -> None:
        """Frees what Reverb reads ahead."""
        self._closed.set()
        if self._sampler is not None:
            self._sampler.close()
        self._asked.release()

    def _draw(self) -> None:
        try:
            # A server that loads large tables may be away for long; whoever takes the pieces says for what it waits.
            while self._client.poll_info(POLL_S) is None and not self._closed.wait(RETRY_S):
                pass
            while self._asked.acquire() and not self._closed.is_set():
                self._put(self._next())
            raise EOFError("it has been closed")
        except BaseException as error:  # It is handed to whoever takes the next piece.
            self._put(error)

    def _put(self, piece: Piece | BaseException) -> None:
        self._pieces.put(piece)
        self._arrived()

    def _next(self) -> Piece:
        """The next piece that is not too old."""
        stale = self.stale
        updates = self._updates + self._fresh // self._table.batch_size
        while not fresh(self._table, (piece := self._piece()).steps.version, updates).all():
            self.stale += self._size
        self._fresh += self._size
        return piece._replace(stale=self.stale - stale)

    def _piece(self) -> Piece:
        """Draws S sequences."""
        samples = [self._sample() for _ in range(self._size)]
        keys, probability, table_size = (np.stack(column) for column in list(zip(*samples))[:3])
        relative = probability * table_size if self._table.kind == "replay" else np.ones_like(probability)
        columns = [np.stack(column, axis=1) for column in zip(*(sample.columns for sample in samples))]
        steps = unpack_columns(self._signature, columns)
        return Piece(steps, relative.astype(np.float32), keys)

    def _sample(self) -> Sample:
        """Draws a sequence."""
        if not self._left:
            self._open_sampler()
        assert self._sampler is not None
        self._left -= 1
        return self._sampler.next()

    def _open_sampler(self) -> None:
        """Opens a sampler for all sequences, or for those that were asked for and haven't come."""
        if self._sampler is not None:
            self._sampler.close()
        if self._in_flight is None:
            missing = self._left = self._ordered - self._fresh
            self._sampler = self._client.sampler(self._table.name, missing, missing)
        else:
            self._left = math.inf
            self._sampler = self._client.sampler(self._table.name, self._in_flight)
        if self._closed.is_set():  # `close` may have looked for one before this one was there.
            self._sampler.close()
