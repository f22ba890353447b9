"""Nodes that work in rounds, and rest in between."""

from __future__ import annotations

import math
import time
from typing import Any

from boonta.nodes.base import Node


class Periodic(Node):
    """A node that calls `round()` every `every_s` seconds and sleeps in between.

    Args:
      name: name of this node.
      monitor: handle of the monitor.
      every_s: seconds from the start of one round to that of the next.

    Attributes:
      waits_itself: whether the class's rounds may follow each other at once, since they wait for something themselves;
        `every_s` may be 0 then.

    Raises:
      ValueError: it would never rest, or never work.
    """

    waits_itself = False

    def __init__(self, name: str, monitor: Any = None, *, every_s: float):
        super().__init__(name, monitor)
        if not (math.isfinite(every_s) and (every_s > 0 or (self.waits_itself and every_s == 0))):
            least = "at least 0" if self.waits_itself else "above 0"
            raise ValueError(f"{name}: every_s is {every_s}; it must be {least}, and finite")
        self._every_s = every_s
        self._due = time.monotonic() + every_s

    def round(self) -> None:
        """Does one round of work."""

    def step(self) -> None:
        with self.stopwatch("resting"):
            self.sleep(max(0.0, self._due - time.monotonic()))
        self._due = time.monotonic() + self._every_s
        if not self.stopping:
            self.round()

    def ready(self) -> bool:
        return time.monotonic() >= self._due

    def rest_after(self, busy_s: float, max_share: float) -> None:
        """Puts the next round off until the seconds that this one was busy are at most this share of the time."""
        self._due = max(self._due, time.monotonic() + busy_s * (1 / max_share - 1))
