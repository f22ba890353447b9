"""How long a program that was asked to end waits for its nodes: decided without processes or clocks."""

from __future__ import annotations

from boonta.nodes.watch.program_end import SAVING_S


class Grace:
    """The time that nodes have to end. The time in which some of them save comes on top, up to `SAVING_S`.

    Args:
      limit_s: seconds from the request to end, without saves.

    Attributes:
      limit_s: as given.
      saving_s: seconds since the request in which nodes have saved.
    """

    def __init__(self, limit_s: float):
        self.saving_s = 0.0
        self.limit_s = limit_s
        self._looked_at = float("-inf")

    @property
    def whole_s(self) -> float:
        """All of the time, with that of saves so far."""
        return self.limit_s + self.saving_s

    def is_over(self, asked: float, now: float, saving: bool) -> bool:
        """Whether the time is over.

        Args:
          asked: when nodes were asked to end, by any clock that never goes back.
          now: the time.
          saving: whether nodes save now, and have since the last call.
        """
        if saving:
            self.saving_s = min(self.saving_s + now - max(asked, self._looked_at), SAVING_S)
        self._looked_at = now
        return now - asked > self.whole_s
