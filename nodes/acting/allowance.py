"""How many sequences actors may begin where data must be fresh, so that each is fresh when it is learned from.

With each version of the params, slots may begin as many sequences as an update takes, and no more than
`Table.max_staleness` versions ahead. With 0, the presets' choice, an update takes exactly the sequences that its
version began, so nothing is left out while no node dies. With a larger bound, fast slots may overtake a slow one in the
queue; its sequence is then too old and left out. The monitor counts these, and slots begin as many again; otherwise
there would one day be too few for a batch. Sequences that died with a node are in no counter, and a slot can't begin a
fraction of one: so no slot waits for ever, see `Patience`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction

from boonta.agents.base import Table

PATIENCE_S = 30.0  # Least wait for newer params after which sequences are begun again, as some must have been lost.


class Patience:
    """How long a slot waits for newer params: `PATIENCE_S`, or twice what the quickest update took.

    Sequences begun beyond the allowance will be too old, so a slot must wait even for slow updates. The quickest update
    counts, because it contains no wait for lost sequences.

    Args:
      clock: the time in seconds.
    """

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self._since = clock()  # When the newest version came.
        self._quickest_s = math.inf
        self._waiting_since: float | None = None

    def see(self, updates: int) -> None:
        """Records a new version of the params, `updates` after the previous one.

        Args:
          updates: 0 for the first version; below 0 if the learner restarted.
        """
        now = self._clock()
        if updates > 0:
            self._quickest_s = min(self._quickest_s, (now - self._since) / updates)
        self._since = now

    def is_over(self) -> bool:
        """Whether the slot has waited too long; its wait begins with the first question."""
        now = self._clock()
        if self._waiting_since is None:
            self._waiting_since = now
        slow = 2 * self._quickest_s if self._quickest_s < math.inf else 0.0
        return now - self._waiting_since > max(PATIENCE_S, slow)

    def reset(self) -> None:
        """Ends the wait."""
        self._waiting_since = None


class Allowance:
    """The sequences that each slot of a group may still begin.

    With batches of 4, 8 slots and a bound of 1, each version allows a slot half a sequence, and one is the limit. So
    with version 0 all slots begin one: these make the batches of two updates, and are 1 version old in the second.
    Version 1 allows a half, with which no slot begins; with version 2 it is one again, and all begin another.

    Args:
      table: has the bound.
      slots: slots of all actors.
      left_out: how many sequences of all actors the learner has left out so far; None if that isn't known yet. The
        first answer, asked for once there are params, is where the count begins.
      again: whether the slots have begun sequences in an earlier life of their node.
      clock: the time in seconds.
    """

    def __init__(
        self,
        table: Table,
        slots: int,
        left_out: Callable[[], float | None],
        again: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ):
        assert table.max_staleness is not None
        self._slots = slots
        self._per_version = Fraction(table.batch_size, slots)
        self._limit = self._per_version * (table.max_staleness + 1)
        self._version: int | None = None
        self._patience = Patience(clock)
        self._told = left_out
        self._heard: float | None = None  # The last answer.
        # All counts are per slot: `_own`, allowed by versions; `_left_out`, left out by the learner since the first
        # answer; `_settled`, those of them that are replaced already or need no replacement. Sequences of an earlier
        # life will be left out, and need none.
        self._own = self._limit
        self._left_out = Fraction(0)
        self._settled = self._limit if again else Fraction(0)

    def may_begin(self, version: int) -> bool:
        """Whether a sequence may begin with the params of this version, the newest."""
        self._hear()
        updates = 0 if self._version is None else version - self._version
        if version != self._version:
            self._patience.see(updates)
        self._version = version
        restarted = updates < 0  # The learner goes on from a checkpoint.
        if not restarted:
            self._own = min(self._limit, self._own + updates * self._per_version)
        if restarted or (self._credit < 1 and self._patience.is_over()):
            self._settled += self._limit - self._own  # What was begun before and isn't lost will be left out.
            self._own = self._limit
        return self._credit >= 1

    def begin(self) -> None:
        """Counts a sequence of each slot."""
        own = min(self._own, Fraction(1))
        self._own -= own
        self._settled += 1 - own
        self._patience.reset()

    @property
    def _credit(self) -> Fraction:
        return self._own + max(Fraction(0), self._left_out - self._settled)

    def _hear(self) -> None:
        """Counts what was left out since the last answer."""
        before, self._heard = self._heard, self._told()
        if before is not None and self._heard is not None:
            self._left_out += Fraction(max(0, int(self._heard - before)), self._slots)
