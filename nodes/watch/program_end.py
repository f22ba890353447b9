"""The end of a program: why its nodes were asked to end, for how long that has been, and which of them may by now."""

from __future__ import annotations

import os
import time

from boonta.nodes.watch.roster import Roster

DRAIN_S = 8.0  # Time from the stop request until services end even if others have not.
END_S = 20.0  # The same for the monitor. By then, a launcher has killed late nodes, and seen how the others ended.
SAVING_S = 600.0  # Most time for saves after the stop request; none of it counts in the two above.


class ProgramEnd:
    """The end of a program, as its monitor brings it about.

    Args:
      roster: the program's nodes.

    Attributes:
      reason: why all nodes were asked to end; empty if they have not been.
      asked_at: the time of that request, by the monotonic clock; None if there was none.
      failure: why the program has failed; empty if it has not.
      done: whether the program ends because it has done its work.
    """

    def __init__(self, roster: Roster):
        self.reason = self.failure = ""
        self.asked_at: float | None = None
        self.done = False
        self._roster = roster
        self._awake_before_s = self._saving_before_s = 0.0  # Both until the request.
        self._shown = False  # Whether the launcher has seen the status in which all nodes are gone.
        self._launcher = os.getppid()

    def ask(self, reason: str) -> None:
        """Asks every node to end; only the first reason counts."""
        if not self.reason:
            self.reason, self.asked_at = reason, time.monotonic()
            self._awake_before_s, self._saving_before_s = self._roster.awake_s, self._roster.saving_s

    @property
    def seconds(self) -> float:
        """Seconds since nodes were asked to end, without those of saves and pauses; 0 while they have not been."""
        if self.asked_at is None:
            return 0.0
        saving_s = self._roster.saving_s - self._saving_before_s
        return self._roster.awake_s - self._awake_before_s - min(saving_s, SAVING_S)

    def allows(self, end_order: int) -> bool:
        """Whether a node may end: it is no server, or no node is left that could call it, or these had time enough."""
        return not end_order or self.seconds > DRAIN_S or self._roster.only_servers_left(end_order, self.seconds)

    def show(self) -> None:
        """Notes that the launcher sees the status now."""
        self._shown = self.asked_at is not None and self._roster.all_gone(self.seconds)

    @property
    def over(self) -> bool:
        """Whether the monitor may end: the launcher knows how everybody ended, or is gone, or they had time enough."""
        told = self._shown or os.getppid() != self._launcher
        return self.seconds > END_S or (told and self._roster.all_gone(self.seconds))
