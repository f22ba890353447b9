"""A clock that only the test moves, for nodes that work in rounds."""

from __future__ import annotations

import math
import time
import types
from collections.abc import Callable
from typing import Any

import pytest

from boonta.nodes import evaluating, periodic

COMPILES_S = 1_000  # Time that the first call of a timed function takes; each other takes a second.


class Clock:
    """Replaces the clock of `nodes.periodic` and `nodes.evaluating`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        # What a node has noted before is not far off; whole seconds add up without rounding.
        self._now = float(math.ceil(time.monotonic()))
        for module in (evaluating, periodic):
            monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: self._now))

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, each call of which moves the clock."""
        calls: list[None] = []

        def call(*arguments: Any) -> Any:
            self._now += 1 if calls else COMPILES_S
            calls.append(None)
            return function(*arguments)

        return call

    def until(self, ready: Callable[[], bool]) -> int:
        """Moves the clock until this holds, at most by as long as compiling takes; returns the seconds."""
        for seconds in range(COMPILES_S):
            if ready():
                return seconds
            self._now += 1
        raise AssertionError(f"not ready after {COMPILES_S} s")
