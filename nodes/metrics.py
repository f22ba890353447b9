"""Measurements: the time that a node's threads spend on each activity, and files of metrics."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import math
import pathlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

FILE = "metrics.jsonl"
MEMBERS = "members.jsonl"  # The metrics of each member of a population.


class Stopwatch:
    """Measures the current activity of each thread of a node, and the seconds spent on each activity so far.

    Activities nest: an inner one's seconds are its own, not the outer one's as well.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: dict[str, float] = collections.defaultdict(float)
        self._running: dict[int, list[_Activity]] = collections.defaultdict(list)  # By thread, the innermost last.

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        now = time.monotonic()
        activity = _Activity(name, now, now)
        with self._lock:
            running = self._running[threading.get_ident()]
            running.append(activity)
        try:
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


def measured(reports: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """The latest metrics in nodes' reports: by the metric's name, then by the node's."""
    values: dict[str, dict[str, float]] = collections.defaultdict(dict)
    for report in reports:
        for metric, value in report["metrics"].items():
            values[metric][report["name"]] = value
    return values


def seconds_by_group(reports: Collection[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds of a thread by "group/activity", a mean over the nodes of a group, which is "actor" of "actor/3"."""
    total: dict[str, float] = collections.defaultdict(float)
    size = collections.Counter(report["name"].split("/")[0] for report in reports)
    for report in reports:
        group = report["name"].split("/")[0]
        for activity, seconds in report["seconds"].items():
            total[f"{group}/{activity.replace(' ', '_')}"] += seconds / size[group]
    return dict(total)


class Rows:
    """Appends rows of scalars to a file of JSON lines, which `read` reads.

    Args:
      path: the file; made if missing, and its folder.
    """

    def __init__(self, path: pathlib.Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lines = open(path, "a", buffering=1)  # noqa: SIM115  # closed in close()
        if self._lines.tell():
            self._lines.write("\n")  # The run's earlier part may have been killed within a row.

    def write(self, row: Mapping[str, float]) -> dict[str, float | None]:
        """Writes one row, and returns it as written: values that aren't finite are None, null in JSON."""
        clean = {name: value if math.isfinite(value) else None for name, value in row.items()}
        self._lines.write(json.dumps(clean) + "\n")
        return clean

    def close(self) -> None:
        self._lines.close()


class MetricsWriter:
    """Appends rows of scalars to `metrics.jsonl` and to TensorBoard events in the run's folder.

    Args:
      folder: the run's folder; made if missing.
    """

    def __init__(self, folder: pathlib.Path):
        self._rows = Rows(folder / FILE)
        import tensorboardX  # Only the monitor writes events; the other processes need not load it.

        self._events = tensorboardX.SummaryWriter(str(folder / "tensorboard"))

    def write(self, row: dict[str, float], env_steps: int) -> None:
        """Writes one row; values that aren't finite are left out of TensorBoard and null in JSON."""
        for name, value in self._rows.write(row).items():
            if value is not None:
                self._events.add_scalar(name, value, env_steps)

    def close(self) -> None:
        self._rows.close()
        self._events.close()


def read(folder: pathlib.Path, file: str = FILE) -> list[dict[str, float | None]]:
    """The rows of a run, oldest first, without malformed ones, such as one that a kill cut short.

    Raises:
      OSError: the file can't be read.
    """
    from boonta.nodes.snapshots import schema  # Only tools read metrics; nodes need not load pydantic, of 8 MB.

    rows = []
    with open(folder / file, "rb") as lines:
        for line in lines:
            with contextlib.suppress(ValueError):
                rows.append(schema.load(schema.ROW, line))
    return rows
