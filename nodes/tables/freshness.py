"""Fresh data: how the bound on the age of a queue's sequences, `Table.max_staleness`, is kept.

The version of params is the number of updates behind them; the learner publishes each. Batch number i is for the update
after `i` others, so that it is known when a sequence is drawn how old it will be. Two rules keep the bound:

- The dataset leaves out sequences that would be too old (`fresh`). So no batch ever has one, whatever happens.
- Actors begin no sequence that would be left out (`Allowance`). With each version its slots may begin as many sequences
  as an update takes, and no more than `max_staleness` versions ahead.

With `max_staleness` 0, the presets' choice, an update takes exactly the sequences that its version began, so nothing is
left out while no node dies. With a larger bound, fast slots may overtake a slow one in the queue; its sequence is then
too old and left out. The monitor counts these, and slots begin as many again; otherwise there would one day be too few
for a batch. Sequences that died with a node are in no counter, and a slot can't begin a fraction of one: so no slot
waits longer than `PATIENCE_S`, or, since what it begins while an update is computed is left out, than twice what the
quickest update took.
"""

from __future__ import annotations

import fractions
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from boonta.agents.base import Table

PATIENCE_S = 30.0  # Least wait for newer params after which sequences are begun again, as some must have been lost.
POLL_S = 0.005  # Time between two looks for newer params.


def fresh(table: Table, version: np.ndarray, updates: int) -> Any:
    """Which sequences an update may learn from, bool [B].

    Params that are newer than those of the update are of a learner that died, and are lost with what it had learned.

    Args:
      table: the table.
      version: int32 [T, B], of the params that acted.
      updates: updates before this one.
    """
    if table.max_staleness is None:
        return np.ones(version.shape[1], bool)
    learned = version[table.core_row :]
    return (learned.min(axis=0) >= updates - table.max_staleness) & (learned.max(axis=0) <= updates)


def bounded(tables: Sequence[Table]) -> Table | None:
    """The first table whose data must be fresh; None if there is none."""
    return next((table for table in tables if table.max_staleness is not None), None)


def in_turns(tables: Sequence[Table], shared: bool) -> bool:
    """Whether an update must be computed before the next batch is drawn.

    With a bound of 0 nothing comes sooner. Of `shared` tables a learner would draw what another needs for this one.
    """
    table = bounded(tables)
    return table is not None and (shared or table.max_staleness == 0)


def require_every_published(name: str, tables: Sequence[Table], updates_per_step: int, publish_every: int) -> None:
    """Refuses updates that aren't published one by one where data must be fresh: actors would wait for the others.

    Raises:
      ValueError: names the learner, `name`, and its settings.
    """
    table = bounded(tables)
    if table is not None and (updates_per_step, publish_every) != (1, 1):
        raise ValueError(
            f"{name}: updates_per_step is {updates_per_step}, publish_every {publish_every}; both must be 1, since "
            f"table {table.name!r} has max_staleness {table.max_staleness}"
        )


def require_slots(who: str, table: Table, slots: int) -> None:
    """Refuses environment slots whose sequences don't make whole batches that are fresh.

    Raises:
      ValueError: names the numbers that can work.
    """
    if not fits(table, slots):
        raise ValueError(
            f"{who}: all actors have {slots} environments (num_envs), and batch_size is {table.batch_size}, of params "
            f"at most {table.max_staleness} updates old (max_staleness): the environments must divide batch_size, or "
            f"be a multiple of it up to {table.batch_size * ((table.max_staleness or 0) + 1)}"
        )


def fits(table: Table, slots: int) -> bool:
    """Whether the sequences of so many slots make whole batches that are fresh."""
    if table.max_staleness is None:
        return True
    size = table.batch_size
    return size % slots == 0 or (slots % size == 0 and slots // size <= table.max_staleness + 1)


def usual_slots(table: Table, actors: int, most: int) -> int:
    """Environments of each of so many actors: `most`, or where data must be fresh as many of these as fit."""
    return next((size for size in range(most, 0, -1) if fits(table, actors * size)), most)


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
        self._per_version = fractions.Fraction(table.batch_size, slots)
        # Sequences that a slot may begin now, and at most.
        self._limit = self._allowed = self._per_version * (table.max_staleness + 1)
        self._left_out = left_out
        self._heard: float | None = None  # How many had been left out at the last look.
        # Sequences left out that none replaces yet; below 0, of those to be left out so many needn't be replaced.
        self._to_replace = -self._limit if again else fractions.Fraction(0)
        self._version: int | None = None
        self._clock = clock
        self._quickest_s = math.inf  # The least time between two versions: waits for what was lost are not in it.
        self._version_since = clock()
        self._waiting_since: float | None = None

    def may_begin(self, version: int) -> bool:
        """Whether a sequence may begin with the params of this version, the newest."""
        before, self._version = self._version, version
        heard, self._heard = self._heard, self._left_out()
        if heard is not None and self._heard is not None:
            self._to_replace += fractions.Fraction(max(0, int(self._heard - heard)), self._slots)
        if version != before:
            since, self._version_since = self._version_since, self._clock()
        if before is not None and version > before:
            self._quickest_s = min(self._quickest_s, (self._version_since - since) / (version - before))
            self._allowed = min(self._limit, self._allowed + (version - before) * self._per_version)
        restarted = before is not None and version < before  # The learner goes on from a checkpoint.
        if restarted or (not self._may_begin() and self._waited_too_long()):
            self._to_replace -= self._limit - self._allowed  # What was begun before and isn't lost will be left out.
            self._allowed = self._limit
        return self._may_begin()

    def begin(self) -> None:
        """Counts a sequence of each slot."""
        of_version = self._allowed if self._allowed < 1 else fractions.Fraction(1)
        self._allowed -= of_version
        self._to_replace -= 1 - of_version
        self._waiting_since = None

    def _may_begin(self) -> bool:
        return self._allowed + (self._to_replace if self._to_replace > 0 else 0) >= 1

    def _waited_too_long(self) -> bool:
        now = self._clock()
        if self._waiting_since is None:
            self._waiting_since = now
        slow = 2 * self._quickest_s if self._quickest_s < math.inf else 0.0
        return now - self._waiting_since > max(PATIENCE_S, slow)
