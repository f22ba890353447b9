"""What a node reports to the monitor: its counters, samples, metrics and warnings, and what it is doing."""

from __future__ import annotations

import collections
import numbers
import os
import platform
import re
import threading
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import psutil

from boonta.nodes.watch import pulse

if TYPE_CHECKING:
    from boonta.nodes.base import Node

NUMBER = re.compile(r"-?\d[\d.,]*(e[+-]?\d+)?")


class MonitorHandle(Protocol):
    """The monitor as nodes call it: the `Monitor` itself, or a client of its server, whose calls raise `RpcError`.

    A client repeats a call that got no answer, so that each does no harm if it comes twice.
    """

    def beat(self, report: dict[str, Any]) -> dict[str, Any]:
        """Takes a node's report; its answer is the program's counters, and what the node must do, see `Monitor.beat`.

        Counters in a report are those of the node's whole life, samples those of no earlier report that has an answer.
        """
        ...

    def resume(self, name: str, counts: dict[str, float]) -> None:
        """Has the program go on counting from a checkpoint's counters; the node `name` has sent a report before."""
        ...

    def report_end(self, name: str, failure: str, life: str = "") -> None:
        """Takes note that a node's life has ended, by a failure unless `failure` is empty."""
        ...

    def request_snapshot(self, number: int) -> None:
        """Has nodes that keep tables save them under a number, too; they learn of it with their next heartbeats."""
        ...

    def fail_program(self, failure: str) -> None:
        """Has all nodes end, since the program has failed; they learn of it with their next heartbeats."""
        ...


class Reporter:
    """Collects in any thread what a node reports with its next heartbeat; `Node` describes the methods.

    Attributes:
      life: tells this life of the node from those before and after.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, float] = collections.defaultdict(float)
        self._samples: dict[str, list[float]] = collections.defaultdict(list)
        self._metrics: dict[str, float] = {}
        self._warnings: dict[str, str] = {}  # Warnings by their words without numbers.
        self._process = psutil.Process()
        self.life = uuid.uuid4().hex
        self._reports = self._acknowledged = 0  # Number of reports, and that of the last one that has been answered.

    def count(self, increments: Mapping[str, float]) -> None:
        taken = {name: _number("count", name, increment) for name, increment in increments.items()}
        with self._lock:
            for name, increment in taken.items():
                self._counts[name] += increment

    def sample(self, name: str, value: float) -> None:
        taken = _number("sample", name, value)
        with self._lock:
            self._samples[name].append(taken)

    def measure(self, metrics: Mapping[str, float]) -> None:
        taken = {name: _number("measure", name, value) for name, value in metrics.items()}
        with self._lock:
            self._metrics.update(taken)

    def warn(self, warning: str, of: str) -> None:
        if warning:
            with self._lock:
                self._warnings.setdefault(of + NUMBER.sub("#", warning), warning)

    @property
    def warnings(self) -> list[str]:
        with self._lock:
            return list(self._warnings.values())

    def report(self, node: Node, threads: int, started: bool) -> dict[str, Any]:
        """The content of a heartbeat: plain numbers, strings, lists and dicts, which is all that calls pass.

        Args:
          node: the node that reports.
          threads: the number of threads in which it works.
          started: whether its `start` has succeeded.
        """
        activity, since = node.stopwatch.longest()
        with self._lock:
            self._reports += 1
            return {
                "name": node.name,
                "process": f"{platform.node()}/{os.getpid()}",
                "end_order": node.end_order,
                "activity": activity,
                "activity_s": since,
                "saving": node.stopwatch.longest(pulse.is_saving)[1] > 0,
                "counts": dict(self._counts),
                "samples": {name: list(values) for name, values in self._samples.items() if values},
                "metrics": dict(self._metrics),
                "seconds": {name: value / threads for name, value in node.stopwatch.seconds().items()},
                "build": node.build,
                "warnings": list(self._warnings.values()),
                "life": self.life,
                "joined": node.joined,
                "number": self._reports,
                "acknowledged": self._acknowledged,
                "started": started,
                "saves": node.saves,
                "stuck": node.stuck,
                "rss_mb": self._process.memory_info().rss / 1e6,
            }

    def arrived(self, report: Mapping[str, Any]) -> None:
        """Notes that the monitor has answered a report, so that its samples aren't sent again."""
        with self._lock:
            for name, values in report["samples"].items():
                del self._samples[name][: len(values)]
            self._acknowledged = report["number"]


def is_number(value: object) -> bool:
    """Whether a value is one number, maybe as an array without axes."""
    if isinstance(value, numbers.Real):
        return True
    if getattr(value, "shape", None) != () or not hasattr(value, "__float__"):
        return False
    kind = getattr(getattr(value, "dtype", None), "kind", "f")  # Other libraries' dtypes have none.
    return kind not in "USOcmM"  # Texts, objects, complex numbers and times.


def _number(call: str, name: str, value: Any) -> float:
    """The number that a node reports, which the monitor would otherwise find to be none, far from where it was given.

    Args:
      call: the method of the node that was given it.
      name: the metric's name.
      value: what was given.

    Raises:
      TypeError: it is no number.
    """
    if is_number(value):
        return float(value)
    found = f"an array of shape {value.shape}" if hasattr(value, "shape") else repr(value)
    raise TypeError(
        f"{call}: the metric {name!r} is {found}; it must be one number. Of many, measure their mean or quantiles"
    )
