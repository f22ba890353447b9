"""What a node's threads do, and for how long: the measurements that are always on."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterator


class Stopped(Exception):
    """The node was told to stop while it waited."""


class Stopwatch:
    """What each thread of a node is doing, and the seconds spent on each activity so far.

    Activities nest: an inner one's seconds are its own, not the outer one's as well.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = collections.defaultdict(float)
        self._running: dict[int, list[_Activity]] = collections.defaultdict(list)  # by thread, the innermost last

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        activity = _Activity(name, time.monotonic())
        with self._lock:
            running = self._running[threading.get_ident()]
            running.append(activity)
        try:
            yield
        except Stopped:
            raise
        except BaseException as error:
            vars(error).setdefault("activity", name)  # the innermost
            raise
        finally:
            with self._lock:
                running.pop()
                elapsed = time.monotonic() - activity.start
                self._seconds[name] += elapsed - activity.inner_s
                if running:
                    running[-1].inner_s += elapsed

    def seconds(self) -> dict[str, float]:
        """Seconds by activity, the innermost running ones included, summed over threads."""
        now = time.monotonic()
        with self._lock:
            total = dict(self._seconds)
            for activity in self._innermost():
                total[activity.name] = total.get(activity.name, 0.0) + now - activity.start - activity.inner_s
        return total

    def longest(self) -> tuple[str, float]:
        """The activity that has been running longest, and for how many seconds."""
        with self._lock:
            innermost = self._innermost()
        if not innermost:
            return "between steps", 0.0
        activity = min(innermost, key=lambda a: a.start)
        return activity.name, time.monotonic() - activity.start

    def _innermost(self) -> list[_Activity]:
        return [running[-1] for running in self._running.values() if running]


@dataclasses.dataclass
class _Activity:
    """Something a thread has been doing since `start`, less what it did within."""

    name: str
    start: float
    inner_s: float = 0.0
