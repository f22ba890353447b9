"""One table on several replay servers, each of which keeps a part of it: the sequences of all, as one stream.

Each server gives the same share, as each is filled alike. One that dies takes its share, and not the run: what it can't
give comes from the others, until it gives again. Keys are random 64 bits, so that new priorities go to all servers, and
each ignores the keys that it doesn't hold.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from boonta.agents.base import Table
from boonta.nodes.tables.base import Piece, Stream
from boonta.nodes.tables.mixing import PATIENCE_S, START_PATIENCE_S
from boonta.nodes.tables.priorities import make_priorities

REOPEN_S = 1.0  # Least time between two streams from the same server.
LETTERS = 64  # Batches of priorities that wait for a server that is away; older ones are dropped.


class Shard(NamedTuple):
    """A replay server's part of a table.

    Attributes:
      open: opens a stream, which calls the argument whenever it has a new piece, or has failed.
      mutate: gives the table priorities by key; it may wait for the server, and raise RuntimeError.
    """

    open: Callable[[Callable[[], None]], Stream]
    mutate: Callable[[dict[int, float]], None]


@dataclasses.dataclass
class _ShardSource:
    """A shard, and what is known of it.

    Attributes:
      opened_at: when its stream was opened.
      given: number of sequences received from it. If it was too slow, the largest of all shards' numbers replaces this,
        so that it need not catch up.
      pending: sequences that it was asked for and hasn't given.
      prompt: it is asked for its share; else the others are asked in its place, until it gives something.
      met: it has given anything.
      error: why its stream failed; None once a later one has given anything.
      down: its stream has failed and isn't open again yet.
    """

    shard: Shard
    stream: Stream
    opened_at: float
    given: int = 0
    pending: int = 0
    prompt: bool = True
    met: bool = False
    error: RuntimeError | None = None
    down: bool = False

    def ask(self, sequences: int) -> None:
        self.pending += sequences
        if not self.down:
            self.stream.ask(self.pending)


class ShardedStream:
    """Draws a table's sequences from all its shards; see `nodes.tables.base.Stream`.

    One thread may take while another gives priorities.

    Args:
      table: the whole table; one whose data must be fresh can't be divided.
      shards: its parts.
      size: S, the number of sequences in every piece, of which all that are asked for must be a multiple.
      patience_s: seconds after which the others are asked for what a shard doesn't give, though they have given theirs.
      start_patience_s: the same for a shard that hasn't given anything yet.
      clock: the time in seconds.

    Attributes:
      stale: sequences that were left out as too old: none ever is.
    """

    def __init__(
        self,
        table: Table,
        shards: Sequence[Shard],
        size: int,
        patience_s: float = PATIENCE_S,
        start_patience_s: float = START_PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.stale = 0
        self._size = size
        self._patience_s, self._start_patience_s = patience_s, start_patience_s
        self._clock = clock
        self._arrived = threading.Event()
        self._sources = [_ShardSource(shard, shard.open(self._arrived.set), clock()) for shard in shards]
        self._closed = False
        self._wanted = 0  # Sequences that were asked for and not taken.
        self._since: float | None = None  # When the present wait began.
        self._priorities = make_priorities(table)
        self._mailboxes = [] if self._priorities is None else [_Mailbox(shard.mutate) for shard in shards]

    def ask(self, sequences: int) -> None:
        self._wanted = max(self._wanted, sequences)
        self._spread()

    def take(self, most: int, timeout_s: float) -> Piece | None:
        """The next piece, of the shard that has given the fewest sequences and has one.

        Raises:
          RuntimeError: reading has failed from all shards.
        """
        end = self._clock() + timeout_s
        while True:
            self._arrived.clear()
            self._reopen()
            if (piece := self._next(most)) is not None:
                return piece
            look_again = self._replace_slow()
            wait_s = min(end, look_again) - self._clock()
            if self._clock() >= end:
                return None
            self._arrived.wait(max(0.0, wait_s))

    def ready(self, sequences: int) -> bool:
        return sum(map(self._has, self._sources)) >= sequences

    def prioritise(self, keys: np.ndarray, errors: np.ndarray) -> None:
        """Gives the errors to all shards, without waiting for any; see `nodes.tables.base.Stream.prioritise`."""
        if self._priorities is not None:
            updates = dict(zip(keys.tolist(), self._priorities(keys, errors).tolist(), strict=True))
            for mailbox in self._mailboxes:
                mailbox.put(updates)

    def close(self) -> None:
        self._closed = True
        for source in self._sources:
            source.stream.close()
        for mailbox in self._mailboxes:
            mailbox.close()

    def _spread(self) -> None:
        """Asks prompt shards for what is wanted and not under way, those first that have given the fewest."""
        prompt = [source for source in self._sources if source.prompt]
        while sum(source.pending for source in prompt) < self._wanted:
            min(prompt, key=lambda source: source.given + source.pending).ask(self._size)

    def _next(self, most: int) -> Piece | None:
        """A piece that is here; None if there is none."""
        for source in sorted(self._sources, key=lambda source: source.given):
            if source.pending and not source.down:
                try:
                    piece = source.stream.take(min(most, source.pending), 0.0)
                except RuntimeError as error:
                    self._lose(source, error)
                    continue
                if piece is not None:
                    self._receive(source, len(piece.keys))
                    return piece
        return None

    def _receive(self, source: _ShardSource, number: int) -> None:
        """Counts a piece. A shard that was slow gets its share again, and doesn't catch up."""
        if not source.prompt:
            source.prompt = True
            source.given = max(other.given for other in self._sources)
        source.given += number
        source.pending = max(0, source.pending - number)
        source.met, source.error = True, None
        self._wanted = max(0, self._wanted - number)
        self._since = None

    def _lose(self, source: _ShardSource, error: RuntimeError) -> None:
        """Does without a shard whose stream has failed, until another stream gives something."""
        source.error, source.down = error, True
        if all(other.error is not None for other in self._sources):
            raise error
        if any(other.prompt for other in self._sources if other is not source):
            source.prompt = False
            self._spread()

    def _reopen(self) -> None:
        """Opens another stream where one has failed, at most once in `REOPEN_S`."""
        for source in self._sources:
            if source.down and not self._closed and self._clock() >= source.opened_at + REOPEN_S:
                source.stream.close()
                source.stream, source.opened_at = source.shard.open(self._arrived.set), self._clock()
                source.down = False
                source.stream.ask(source.pending)

    def _replace_slow(self) -> float:
        """Asks the others where a shard is too slow; returns when to look again, if nothing arrives before."""
        now = self._clock()
        if self._since is None:
            self._since = now
        times = [source.opened_at + REOPEN_S for source in self._sources if source.down and not self._closed]
        done = [source for source in self._sources if source.prompt and not source.pending]
        for source in self._sources if done else ():
            if source.prompt and source.pending:
                patient_until = self._since + (self._patience_s if source.met else self._start_patience_s)
                source.prompt = now < patient_until
                times += [patient_until] if source.prompt else []
        self._spread()
        return min(times, default=math.inf)

    def _has(self, source: _ShardSource) -> int:
        """How many sequences of a shard can be taken at once."""
        count = 0
        while count < source.pending and not source.down and source.stream.ready(count + 1):
            count += self._size
        return count


class _Mailbox:
    """Sends priorities to one server in a thread of its own: a call to a server that is away returns once it is back.

    Args:
      mutate: as for `Shard`.
    """

    def __init__(self, mutate: Callable[[dict[int, float]], None]):
        self._mutate = mutate
        self._letters: collections.deque[dict[int, float]] = collections.deque(maxlen=LETTERS)
        self._arrived = threading.Event()
        self._closed = False
        threading.Thread(target=self._send, daemon=True).start()

    def put(self, updates: dict[int, float]) -> None:
        self._letters.append(updates)
        self._arrived.set()

    def close(self) -> None:
        self._closed = True
        self._arrived.set()

    def _send(self) -> None:
        while not self._closed:
            self._arrived.wait()
            self._arrived.clear()
            while self._letters and not self._closed:
                with contextlib.suppress(RuntimeError):  # The server has ended; its next life has other sequences.
                    self._mutate(self._letters.popleft())
