"""The dataset: batches of sequences from the learner's tables, time-major, and on its devices ahead of use."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from boonta.agents.base import Batch, Steps, Table
from boonta.agents.tables import sequence_counts
from boonta.nodes.tables import contract
from boonta.nodes.tables.base import Drawn, WaitFor
from boonta.nodes.tables.freshness import POLL_S
from boonta.nodes.tables.mixing import PATIENCE_S, START_PATIENCE_S, MixedDataset
from boonta.nodes.tables.reverb.client import Client
from boonta.nodes.tables.reverb.streams import open_stream


class ReverbDataset:
    """Draws batches of one table or several in a background thread; see `nodes.tables.mixing.MixedDataset`.

    Tables give their shares in pieces of a size that divides all of them. Of several replay servers each gives the same
    part, in pieces too.

    Args:
      clients: a client of the replay server, or one of each that has a part of the tables.
      tables: the tables to draw from, as `nodes.tables.contract.learned_from` gives them.
      sharding: a `Batch` of shardings for the leaves.
      signature: one raw step in the agent's own classes, as `nodes.acting.local.step_shapes` gives it.
      wait_for: the `wait_for` of the node that reads; the one replay server is waited for in it.
      updates: updates before the one that gets the first batch.
      patience_s, start_patience_s: as for `MixedDataset`.
      ahead: whether a batch is drawn before it is asked for.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        tables: Sequence[Table],
        sharding: Batch,
        signature: Steps,
        wait_for: WaitFor,
        updates: int,
        patience_s: float = PATIENCE_S,
        start_patience_s: float = START_PATIENCE_S,
        ahead: bool = True,
    ):
        self._clients = clients
        self._tables, self._counts = tables, sequence_counts(tables)
        self._taken = [0 for _ in tables]  # Sequences taken from each table so far, also before this dataset opened.
        if len(clients) == 1:  # A table restored from a checkpoint has been drawn from before.
            infos = wait_for("the replay server", clients[0].poll_info)
            self._taken = [infos[table.name].rate_limiter_info.sample_stats.completed for table in tables]
        self._bounded = tables[0].max_staleness is not None  # Then it is the only one.
        piece = 1 if self._bounded else math.gcd(*self._counts, tables[0].batch_size // len(clients))
        self._streams = [
            open_stream(clients, table, signature, piece, max(1, count // 4) if ahead else None, updates)
            for table, count in zip(tables, self._counts)
        ]
        self._mixed = MixedDataset(tables, self._streams, sharding, patience_s, start_patience_s)
        self._error: BaseException | None = None
        self._batches: queue.Queue[tuple[Batch, Drawn]] = queue.Queue()
        # It is taken before drawing, so that a single batch ages in hand: each further one would be policy lag.
        self._space = threading.Semaphore(1 if ahead else 0)
        self._ahead, self._awaited = ahead, False  # Whether a batch was asked for that hasn't come.
        self._filler = threading.Thread(target=self._fill, daemon=True)
        self._filler.start()

    @property
    def waits_for(self) -> str:
        """The table that the next batch waits for, or waited for last."""
        return self._mixed.waits_for

    def next(self, timeout_s: float) -> tuple[Batch, Drawn] | None:
        """The next batch, leaves [T, B, ...] on the devices, and where its sequences came from, on the host.

        None if it isn't there within `timeout_s`.
        """
        if self._error is not None:
            raise self._error
        if not self._ahead and not self._awaited:
            self._space.release()
        self._awaited = True
        try:
            batch, drawn = self._batches.get(timeout=timeout_s)
        except queue.Empty:
            return None
        self._awaited = False
        if self._ahead:
            self._space.release()
        for i in range(len(self._tables)):
            self._taken[i] += int(np.sum(drawn.table == i))
        return batch, drawn

    def prioritise(self, drawn: Drawn, errors: np.ndarray) -> None:
        """Gives the tables the errors [B] of sequences drawn from them; see `MixedDataset.prioritise`."""
        self._mixed.prioritise(drawn, errors)

    def ready(self) -> bool:
        """Whether the next batch is here, or the tables' rate limiters let it through.

        Where sequences may be too old, it waits until enough of them have been looked at. Of several replay servers one
        may be away, so that none is asked: it is whether the batch is here.
        """
        while self._batches.empty() and self._error is None:
            if not self._let_through():
                return False
            if not self._bounded or not self._ahead:
                return True
            time.sleep(POLL_S)
        return True

    def close(self) -> None:
        """Frees what Reverb reads ahead, and ends the thread: nothing comes from streams that are closed."""
        self._mixed.close()
        self._space.release()

    def _let_through(self) -> bool:
        if len(self._clients) > 1:
            return False
        stale = [stream.stale for stream in self._streams]  # First, as those that come meanwhile count as fresh.
        inserted = [limiter.insert_stats.completed for limiter in self._limiters()]
        written = [number - old for number, old in zip(inserted, stale)]
        limits = map(contract.rate_limit, self._tables)
        return all(map(contract.RateLimit.may_sample, limits, written, self._taken, self._counts))

    def _limiters(self) -> list[Any]:
        """The state of each table's rate limiter, on the one replay server."""
        infos = self._clients[0].server_info()
        return [infos[table.name].rate_limiter_info for table in self._tables]

    def _fill(self) -> None:
        try:
            while True:
                self._space.acquire()
                while (found := self._mixed.next(1.0)) is None:
                    pass  # It waits without end; closed streams raise.
                self._batches.put(found)
        except BaseException as error:  # It is handed to whoever asks for the next batch.
            self._error = error
