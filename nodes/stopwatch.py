"""What a node's threads do, and for how long: the measurements that are always on."""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from collections.abc import Iterator


class Stopped(Exception):
    """The node was told to stop while it waited."""


class Stopwatch:
    """What each thread of a node is doing, and the seconds spent on each activity so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = collections.defaultdict(float)
        self._now: dict[int, tuple[str, float]] = {}
        self.failed_in = ""

    @contextlib.contextmanager
    def __call__(self, activity: str) -> Iterator[None]:
        thread, start = threading.get_ident(), time.monotonic()
        self._now[thread] = (activity, start)
        try:
            yield
        except Stopped:
            raise
        except BaseException:
            self.failed_in = self.failed_in or activity  # the innermost
            raise
        finally:
            self._now.pop(thread, None)
            with self._lock:
                self._seconds[activity] += time.monotonic() - start

    def seconds(self) -> dict[str, float]:
        """Seconds by activity, the running ones included, summed over threads."""
        now = time.monotonic()
        with self._lock:
            total = dict(self._seconds)
        for activity, start in list(self._now.values()):
            total[activity] = total.get(activity, 0.0) + now - start
        return total

    def longest(self) -> tuple[str, float]:
        """The activity that has been running longest, and for how many seconds."""
        if not self._now:
            return "between steps", 0.0
        activity, start = min(self._now.values(), key=lambda item: item[1])
        return activity, time.monotonic() - start
