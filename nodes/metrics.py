"""Measurements: the time that a node's threads spend on each activity, and files of metrics."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import io
import json
import math
import os
import pathlib
import statistics
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import psutil

from boonta.nodes.snapshots import files

FILE = "metrics.jsonl"
STATUS = "status.json"  # What the monitor knew of each node a second ago, for `boonta report`.
MEMBERS = "members.jsonl"  # The metrics of each member of a population.
SHORT_S = 0.05  # Phases of a start that are shorter aren't worth a metric, unless they are of interest to all.
CONNECTING = "connecting"  # The first word of activities that wait for servers, or for others, to be there.
SE = "_se"  # How the names of standard errors end; the mean has the same name without it.
# The first letters of what an environment calls the numbers of actors' episodes, and of an evaluation's.
EPISODE, EVAL_EPISODE = "episode/", "eval_episode/"


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


def has_counted(row: Mapping[str, float | None]) -> bool:
    """Whether anything has been counted in a row, or in a program's totals."""
    return any(row.get(name) for name in ("env_steps", "updates"))


def standard_error(values: Collection[float]) -> float | None:
    """The standard error of the mean of some values; None where there are fewer than two."""
    if len(values) < 2:
        return None
    return statistics.stdev(values) / math.sqrt(len(values))


def mean(values: Iterable[float]) -> float:
    """The mean; NaN where it is none, such as that of both infinities."""
    try:
        return statistics.fmean(values)
    except (OverflowError, ValueError):
        return math.nan


def means(values: Mapping[str, Collection[float]]) -> dict[str, float]:
    """Means by name. Of standard errors, whose names end with `SE`, it is that of the mean of what they belong to.

    An evaluator all of whose episodes were cut has NaN for their numbers, which doesn't count beside those of others.
    """
    found = {}
    for name, each in values.items():
        there = [value for value in each if not math.isnan(value)] if name.startswith(EVAL_EPISODE) else []
        error = _is_error(name)
        found[name] = math.sqrt(sum(value**2 for value in each)) / len(each) if error else mean(there or each)
    return found


def _is_error(name: str) -> bool:
    """Whether a metric is a standard error, and not a number that an environment calls as these are called."""
    return name.endswith(SE) and not name.startswith((EPISODE, EVAL_EPISODE))


class Appended:
    """A file that grows by whole pieces; what a full disk has no room for waits in memory, and loses nothing.

    Args:
      path: the file; made if missing, and its folder.
      warn: called with a message where pieces have to wait.
    """

    def __init__(self, path: pathlib.Path, warn: Callable[[str], None]):
        self._path = path
        self._warn = warn
        self._file: io.FileIO | None = None  # Unbuffered: a buffer would write the start of a piece twice.
        self._waiting = b""

    def append(self, piece: bytes) -> None:
        """Appends a piece, after those that wait."""
        self._waiting += piece
        try:
            self._write()
        except OSError as error:
            why = files.fullness(self._path, error)
            self._warn(f"{self._path} can't be written: {why}; what belongs there is kept until it can")

    def close(self) -> None:
        """Writes what waits, and closes the file.

        Raises:
          OSError: it can't be written, and is lost.
        """
        try:
            self._write()
        except OSError as error:
            why = files.fullness(self._path, error)
            lost = f"the last {len(self._waiting):,} bytes that belong there are lost, what is there is kept"
            raise OSError(f"{self._path} can't be written: {why}; {lost}") from error
        finally:
            if self._file is not None:
                self._file.close()

    def _write(self) -> None:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115  # closed in close()
        while self._waiting:
            self._waiting = self._waiting[self._file.write(self._waiting) :]


def ends_within_a_line(path: pathlib.Path) -> bool:
    """Whether a file's last line lacks its end; False for one that is missing or empty."""
    if not path.exists() or not path.stat().st_size:
        return False
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def finite(row: Mapping[str, float]) -> dict[str, float | None]:
    """A row for JSON, which has no NaN: values that aren't finite are None."""
    return {name: value if math.isfinite(value) else None for name, value in row.items()}


def write_status(folder: pathlib.Path, status: dict[str, Any]) -> None:
    """Writes the monitor's status into a run's folder; not if there is no room: the next one comes in a second."""
    shown = {**status, "row": finite(status["row"]), "totals": finite(status["totals"]), "at": time.time()}
    with contextlib.suppress(OSError):
        files.write_json(folder / STATUS, shown, synced=False)


class Rows:
    """Appends rows of scalars to a file of JSON lines, which `read` reads.

    Args:
      path: the file; made if missing, and its folder.
      warn: called with a message where rows have to wait for room on the disk.
    """

    def __init__(self, path: pathlib.Path, warn: Callable[[str], None]):
        self._lines = Appended(path, warn)
        if ends_within_a_line(path):  # The run's earlier part was killed within a row.
            self._lines.append(b"\n")

    def write(self, row: Mapping[str, float]) -> dict[str, float | None]:
        """Writes one row, and returns it as written: values that aren't finite are None, null in JSON."""
        clean = finite(row)
        self._lines.append(json.dumps(clean).encode() + b"\n")
        return clean

    def close(self) -> None:
        self._lines.close()


def each(folder: pathlib.Path, file: str = FILE) -> Iterator[dict[str, float | None]]:
    """The rows that `read` returns, one by one: those of a week would take gigabytes at once.

    Raises:
      OSError: the file can't be read.
    """
    from boonta.nodes.snapshots import schema  # Only tools read metrics; nodes need not load pydantic, of 8 MB.

    return (row for _, row in schema.each_line(schema.ROW, folder / file) if row is not None)


def read(folder: pathlib.Path, file: str = FILE) -> list[dict[str, float | None]]:
    """The rows of a run, oldest first, without malformed ones, such as one that a kill cut short.

    Raises:
      OSError: the file can't be read.
    """
    return list(each(folder, file))
