"""Reading a table in pieces: the one place where sequences come out of the replay server."""

from __future__ import annotations

from boonta.agents import rlax_first  # noqa: F401

# isort: split

import functools
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import reverb
import tensorflow as tf
import tree
from tensorflow.python.eager import cancellation

from boonta.agents.base import Steps, Table
from boonta.nodes.tables import base
from boonta.nodes.tables.base import Piece
from boonta.nodes.tables.division import SERVERS, divided
from boonta.nodes.tables.freshness import fresh
from boonta.nodes.tables.priorities import make_priorities
from boonta.nodes.tables.reverb.sharded import Shard, ShardedStream
from boonta.nodes.tables.reverb.signature import unpack_columns

CONNECT_DEADLINE_S = 120
WORKERS = 2  # Sampling threads of a replay table; more cost more than they bring.


def open_stream(
    clients: Sequence[reverb.Client], table: Table, signature: Steps, size: int, in_flight: int, updates: int = 0
) -> Stream | ShardedStream:
    """A table's sequences, from its one replay server, or from several that have equal parts of it.

    Args:
      clients: a client of each server.
      table: the whole table.
      signature, size, in_flight, updates: as for `Stream`.
    """
    if len(clients) == 1:
        return Stream(clients[0], table, signature, size, in_flight, updates)
    part, in_flight = divided(table, len(clients), SERVERS), max(1, in_flight // len(clients))

    def shard(client: reverb.Client) -> Shard:
        def open_part(arrived: Callable[[], None]) -> base.Stream:
            return Stream(client, part, signature, size, in_flight, updates, arrived)

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
      in_flight: number of sequences that Reverb fetches ahead, and so draws before their time.
      updates: updates before the one that gets the first batch.
      arrived: called whenever there is another piece, or reading has failed.

    Attributes:
      stale: sequences that were left out so far.
    """

    def __init__(
        self,
        client: reverb.Client,
        table: Table,
        signature: Steps,
        size: int,
        in_flight: int,
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
        self._pending = 0  # Number of sequences that were asked for and not taken.
        self._priorities = make_priorities(table)
        self._pieces: queue.Queue[Piece | BaseException] = queue.Queue()
        self._cancellation = cancellation.CancellationManager()
        threading.Thread(target=self._draw, daemon=True).start()

    def ask(self, sequences: int) -> None:
        while self._pending < sequences:
            self._pending += self._size
            self._asked.release()

    def take(self, most: int, timeout_s: float | None) -> Piece | None:
        """The next piece; see `nodes.tables.base.Stream.take`.

        Raises:
          RuntimeError: reading failed; names the table.
        """
        try:
            piece = self._pieces.get(timeout=timeout_s) if timeout_s != 0 else self._pieces.get_nowait()
        except queue.Empty:
            return None
        if isinstance(piece, BaseException):
            self._pieces.put(piece)  # The next call must raise it again.
            raise RuntimeError(f"reading table {self._table.name!r} failed") from piece
        self._pending -= self._size
        return piece

    def ready(self, sequences: int) -> bool:
        return self._pieces.qsize() * self._size >= sequences

    def prioritise(self, keys: np.ndarray, errors: np.ndarray) -> None:
        if self._priorities is not None:
            updates = dict(zip(keys.tolist(), self._priorities(keys, errors).tolist(), strict=True))
            self._client.mutate_priorities(self._table.name, updates)

    def close(self) -> None:
        """Frees what Reverb reads ahead. Left open, its threads would go on asking for a server that is gone."""
        self._cancellation.start_cancel()
        self._asked.release()

    def _draw(self) -> None:
        try:
            draw = self._samples()
            while self._asked.acquire() and not self._cancellation.is_cancelled:
                self._put(self._next(draw))
            self._put(EOFError("it has been closed"))
        except tf.errors.OutOfRangeError:
            self._put(EOFError("the replay server ended the stream"))
        except BaseException as error:  # It is handed to whoever takes the next piece.
            self._put(error)

    def _put(self, piece: Piece | BaseException) -> None:
        self._pieces.put(piece)
        self._arrived()

    def _next(self, draw: Callable[[], Any]) -> Piece:
        """The next piece that is not too old."""
        stale = self.stale
        updates = self._updates + self._fresh // self._table.batch_size
        while not fresh(self._table, (piece := self._piece(draw())).steps.version, updates).all():
            self.stale += self._size
        self._fresh += self._size
        return piece._replace(stale=self.stale - stale)

    def _samples(self) -> Callable[[], Any]:
        """A function that draws S sequences, as tensors; raises OutOfRangeError at the end of the stream."""
        # A queue needs one worker to stay in order.
        workers = 1 if self._table.kind == "queue" else WORKERS
        dataset = reverb.TrajectoryDataset.from_table_signature(
            server_address=self._client.server_address,
            table=self._table.name,
            max_in_flight_samples_per_worker=self._in_flight,
            num_workers_per_iterator=workers,
            get_signature_timeout_secs=CONNECT_DEADLINE_S,
        ).batch(self._size, drop_remainder=True)
        options = tf.data.Options()
        options.threading.private_threadpool_size = 1
        iterator = iter(dataset.with_options(options))
        # A call of a function, unlike one of the iterator, can be cancelled while it waits.
        draw = tf.function(iterator.get_next).get_concrete_function()
        return self._cancellation.get_cancelable_function(draw)

    def _piece(self, sample: Any) -> Piece:
        sample = tf.nest.map_structure(lambda x: np.asarray(memoryview(x)), sample)  # This copies nothing.
        info = sample.info
        replayed = self._table.kind == "replay"
        relative = info.probability * info.table_size if replayed else np.ones_like(info.probability)
        steps = unpack_columns(self._signature, tf.nest.flatten(sample.data))
        steps = tree.map_structure(lambda leaf: leaf.swapaxes(0, 1), steps)  # This copies nothing, either.
        return Piece(steps, relative.astype(np.float32), info.key)
