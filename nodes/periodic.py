"""Nodes that work in rounds, and rest in between."""

from __future__ import annotations

import math
import time

from boonta.nodes.base import Node
from boonta.nodes.watch.reporter import MonitorHandle


class Periodic(Node):
    """A node that calls `round()` at intervals and sleeps in between.

    Args:
      name: name of this node.
      monitor: handle of the monitor.
      every_s: seconds from the start of one round to that of the next; None for one as soon as the other ends, where
        rounds wait for something themselves.

    Raises:
      ValueError: it would never rest, or never work.
    """

    def __init__(self, name: str, monitor: MonitorHandle | None = None, *, every_s: float | None):
        super().__init__(name, monitor)
        if every_s is not None and not (math.isfinite(every_s) and every_s > 0):
            raise ValueError(f"{name}: every_s is {every_s}; it must be above 0, and finite")
        self._every_s = every_s or 0.0
        self._due = time.monotonic() + self._every_s

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
