"""Measures the time that a node's threads spend on each activity, and how long a process took to start."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psutil

SHORT_S = 0.05  # Phases of a start that are shorter aren't worth a metric, unless they are of interest to all.
CONNECTING = "connecting"  # The first word of activities that wait for servers, or for others, to be there.


class Stopwatch:
    """Measures the current activity of each thread of a node, and the seconds spent on each activity so far.

    Activities nest: an inner one's seconds are its own, not the outer one's as well.

    Args:
      owner: the name of the node, for traces.

    Attributes:
      mark: makes the context that shows an activity in a trace, while the process traces; see `learning.profiling`.
    """

    mark: Callable[[str], contextlib.AbstractContextManager[Any]] | None = None

    def __init__(self, owner: str = "") -> None:
        self._owner = owner
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = collections.defaultdict(float)
        self._running: dict[int, list[_Activity]] = collections.defaultdict(list)  # The innermost activity is last.

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        now = time.monotonic()
        activity = _Activity(name, now, now)
        with self._lock:
            running = self._running[threading.get_ident()]
            running.append(activity)
        try:
            mark = self.mark  # It is read once, since another thread may end the trace.
            with contextlib.nullcontext() if mark is None else mark(f"{self._owner}: {name}" if self._owner else name):
                yield
        except BaseException as error:
            vars(error).setdefault("activity", name)  # The innermost activity sets it first.
            raise
        finally:
            with self._lock:
                running.pop()
                elapsed = time.monotonic() - activity.start
                self._seconds[name] += elapsed - activity.inner_s
                if running:
                    running[-1].inner_s += elapsed
                    running[-1].since = time.monotonic()

    def seconds(self) -> dict[str, float]:
        """Seconds by activity, the innermost running ones included, summed over threads."""
        now = time.monotonic()
        with self._lock:
            total = dict(self._seconds)
            for activity in self._innermost():
                total[activity.name] = total.get(activity.name, 0.0) + now - activity.start - activity.inner_s
        return total

    @property
    def finished(self) -> frozenset[str]:
        """The activities that have come to an end at least once."""
        with self._lock:
            return frozenset(self._seconds)

    def longest(self, among: Callable[[str], bool] = lambda name: True) -> tuple[str, float]:
        """The activity in which a thread has been longest, and for how many seconds.

        An activity that contains others goes on anew when one of those ends.

        Args:
          among: chooses the activities that count, by name.
        """
        with self._lock:
            running = self._innermost()
        innermost = [activity for activity in running if among(activity.name)]
        if not innermost:
            return "between steps", 0.0
        activity = min(innermost, key=lambda each: each.since)
        return activity.name, time.monotonic() - activity.since

    def _innermost(self) -> list[_Activity]:
        return [running[-1] for running in self._running.values() if running]


# What this process does before its nodes run: servers and other hosts may come minutes later.
before_nodes = Stopwatch()


def start_seconds(stopwatch: Stopwatch) -> dict[str, float]:
    """Metrics of how a process came to the first update of its node, which has just been made: in all, and by phase.

    All that connects, before the node runs and in it, is the phase "connecting". Imports, and whatever else came before
    the node's first activity, are the phase "importing".
    """
    age = process_age()
    phases: dict[str, float] = collections.defaultdict(float, {CONNECTING: 0.0})
    for activities in (before_nodes.seconds(), stopwatch.seconds()):
        for name, seconds in activities.items():
            first = name.partition(" ")[0]
            phases[CONNECTING if first == CONNECTING else name.replace(" ", "_")] += seconds
    phases["importing"] = max(0.0, age - sum(phases.values()))
    told = {name: seconds for name, seconds in phases.items() if seconds >= SHORT_S or name == CONNECTING}
    return {"start_s": age, **{f"start_s/{name}": seconds for name, seconds in told.items()}}


def process_age() -> float:
    """The time since this process was started, in seconds."""
    return max(0.0, time.time() - psutil.Process().create_time())


@dataclasses.dataclass
class _Activity:
    """Something a thread does.

    Attributes:
      name: what it does.
      start: when it began.
      since: when it began, or when the last activity within ended.
      inner_s: seconds spent on activities within.
    """

    name: str
    start: float
    since: float
    inner_s: float = 0.0
