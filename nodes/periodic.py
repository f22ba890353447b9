"""Nodes that work in rounds, and rest in between."""

from __future__ import annotations

import time
from typing import Any

from boonta.nodes.base import Node


class Periodic(Node):
    """A node that calls `round()` every `every_s` seconds and sleeps in between."""

    def __init__(self, name: str, monitor: Any = None, *, every_s: float):
        super().__init__(name, monitor)
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
