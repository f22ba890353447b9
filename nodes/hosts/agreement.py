"""The agreement between learners of several hosts: on their counters, when all save and when all end.

An update is one computation of all hosts: a host that made one update less would leave the others waiting in it. So
each host's report travels with the update, and every host derives the same decision from the same reports.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from concurrent import futures
from typing import Any, NamedTuple, Protocol

import numpy as np
from jax.sharding import NamedSharding

from boonta.nodes.base import AWAY_S, Node
from boonta.nodes.hosts.arrays import place
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.watch.calls import polled

LOST = "lost another learner"  # The first words of the failure of a learner that another one's death has ended.
FINISH_DEADLINE_S = 300.0  # The first updates compile.
UPDATE_S = 30.0  # Time after which an update isn't slow, but waits for another host or learner.
COUNTERS = (
    "env_steps",
    "frames",
    "episodes",
    "sequences",
    "stale_sequences",
    "reanalyzed_steps",
    "reanalyzed_sequences",
)


class HostReport(NamedTuple):
    """One host's report to the others, sent with an update.

    Attributes:
      env_steps, frames, episodes, sequences: the host's own counters.
      seconds: the run's age on this host.
      eval_return: the mean return of its last evaluation; NaN without one.
      pace: rounds a second that a fused program makes here, 0 of others; only the first host's counts.
      collapsed: 1 if its health shows that learning has collapsed.
      ending: 1 if this host was asked to end.
      saving: 1 if a checkpoint is due on this host; only the first host's counts.
      eval_version: see `Evaluators.newest`; NaN without an evaluation.
      stale_sequences, reanalyzed_steps, reanalyzed_sequences: the host's own counters, too.
    """

    env_steps: float
    frames: float
    episodes: float
    sequences: float
    seconds: float
    eval_return: float
    pace: float
    collapsed: float
    ending: float
    saving: float
    eval_version: float = float("nan")
    stale_sequences: float = 0.0
    reanalyzed_steps: float = 0.0
    reanalyzed_sequences: float = 0.0


class Merged(NamedTuple):
    """The merged reports of all hosts after an update.

    Attributes:
      totals: counters of all hosts together, the longest age and the first host's evaluation.
      collapsed: whether learning has collapsed, as the first host judges it.
      ending: numbers of the hosts that were asked to end.
      saving: whether all save a checkpoint now.
      pace: the first host's rounds a second.
    """

    totals: dict[str, float]
    collapsed: bool
    ending: tuple[int, ...]
    saving: bool
    pace: float


def encode(report: HostReport) -> np.ndarray:
    """The report's bits, int32 [2 x fields]: JAX would round the float64 values."""
    return np.array(report, np.float64).view(np.int32)


def decode(bits: np.ndarray) -> HostReport:
    """The inverse of `encode`."""
    return HostReport(*np.ascontiguousarray(bits).view(np.float64))


def merge(reports: Sequence[HostReport], updates: int) -> Merged:
    """Merges the reports of all hosts, in their order.

    Args:
      reports: one for each host, made with the same update.
      updates: number of updates so far, including that one.
    """
    totals = {name: sum(getattr(report, name) for report in reports) for name in COUNTERS}
    totals |= {"updates": updates, "seconds": max(report.seconds for report in reports)}
    if not np.isnan(reports[0].eval_return):  # Only the first host evaluates.
        totals["eval_return"] = reports[0].eval_return
    ending = tuple(i for i, report in enumerate(reports) if report.ending)
    return Merged(totals, bool(reports[0].collapsed), ending, bool(reports[0].saving), reports[0].pace)


class Decision(NamedTuple):
    """The learner's next actions after an update.

    Attributes:
      save: whether it saves a checkpoint.
      end: whether it ends, and makes no further update.
      pace: rounds a second by which all hosts choose how many a fused program dispatches next.
    """

    save: bool = False
    end: bool = False
    pace: float = 0.0


class Agreement:
    """A learner's agreement with those of the other hosts. This one is for a learner that meets nobody.

    It saves whenever a checkpoint is due, and its monitor alone ends it.

    Attributes:
      first: whether this host keeps the program's counters.
      shares_tables: whether the learners draw from the same tables, each a part of every batch.
    """

    first = True
    shares_tables = False
    _saving, _pace = False, 0.0  # What was reported since the last decision.

    def join(self, learner: Node, folder: str) -> None:
        """Connects to the other learners, unless the program has done so; called before JAX looks for devices.

        Args:
          learner: the one that joins.
          folder: the folder of the checkpoints, which all must share.
        """

    def resumed(self, counts: dict[str, float]) -> dict[str, float] | None:
        """Of a checkpoint's counters those that the monitor is to go on with; None tells it nothing."""
        return counts

    def begin(self) -> None:
        """Waits, with the first batch in hand, until all learners have theirs.

        Raises:
          Stopped: one ends without a batch, and so do all.
        """

    def may_end(self) -> bool:
        """Whether the learner, which is asked to end, may do so at once; if not, it ends when all have agreed to."""
        return True

    def makes_do(self) -> bool:
        """Whether the learner, which is asked to end and gets no data, makes do with the batch that it had last."""
        return False

    def settle(self, learner: Node, finished: futures.Future[Any]) -> Any:
        """The result of an update that is under way; None if the learner is stopped meanwhile.

        Raises:
          TimeoutError: it took too long.
        """
        deadline = time.monotonic() + FINISH_DEADLINE_S
        while not learner.stopping:
            if futures.wait([finished], 0.5).done:
                return finished.result()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{learner.name}: an update took over {FINISH_DEADLINE_S:.0f} s")
        return None

    def report(self, saving: bool, sharding: NamedSharding, pace: float = 0.0) -> Any:
        """This host's report for the next update, on its devices; `saving` is whether a checkpoint is due here."""
        del sharding
        self._saving, self._pace = self._saving or saving, pace
        return ()

    def merge(self, reports: Any, updates: int) -> Decision:
        """The decision after an update, from the reports that it returned and the number of updates so far."""
        del reports, updates
        saving, self._saving = self._saving, False
        return Decision(save=saving, pace=self._pace)

    def saves_at_end(self) -> bool:
        """Whether a learner that ends now may save: all hosts must be at the same update."""
        return True

    def explain(self, error: BaseException) -> BaseException:
        """The error with which a learner fails; it says so if another learner may be the cause."""
        return error

    def leave(self, failed: bool) -> None:
        """Waits until this learner's process may end."""


class Party(Protocol):
    """One of those that agree: what a host, or a learner that is a process of its own, reports and makes of reports.

    Attributes:
      hosts: all of them, and which one this is.
      agreed: whether all end after the newest update.
    """

    hosts: Hosts
    agreed: bool

    def host_report(self, saving: bool, pace: float = 0.0) -> HostReport:
        """Its report; `saving` is whether a checkpoint is due here, `pace` as in `HostReport`."""
        ...

    def follow(self, reports: Sequence[HostReport], updates: int) -> Merged:
        """Takes note of all reports, which were made with the same update, number `updates`."""
        ...


class SeveralHosts(Agreement):
    """The agreement of several hosts. Reports travel as int32 [devices, 2 x fields], equal on all devices of a host.

    Args:
      monitor: this host's party: its monitor, which has its counters and ends its nodes, or a learner's `Together`.

    Attributes:
      others: what a learner waits for in an update, in the monitor's lines.
    """

    others = "the other hosts"

    def __init__(self, monitor: Party):
        self.first = monitor.hosts.first
        self._monitor = monitor

    def resumed(self, counts: dict[str, float]) -> dict[str, float] | None:
        """See `Agreement.resumed`. What is added up over hosts goes on at the first; each counts all updates."""
        return counts if self.first else {"updates": counts.get("updates", 0.0)}

    def settle(self, learner: Node, finished: futures.Future[Any]) -> Any:
        """See `Agreement.settle`. An update also takes as long as another host waits for its data."""
        soon = time.monotonic() + UPDATE_S
        while not (finished.done() or learner.stopping or time.monotonic() > soon):
            futures.wait([finished], 0.5)
        if not finished.done():
            learner.wait_for(self.others, functools.partial(polled, finished), AWAY_S)
        return finished.result()

    def report(self, saving: bool, sharding: NamedSharding, pace: float = 0.0) -> Any:
        bits = encode(self._monitor.host_report(saving, pace))
        return place(np.tile(bits, (len(sharding.addressable_devices), 1)), sharding)

    def merge(self, reports: Any, updates: int) -> Decision:
        if reports is None or not len(reports):  # No update has returned yet.
            return Decision()
        by_host = reports[:: len(reports) // self._monitor.hosts.number]
        merged = self._monitor.follow([decode(bits) for bits in by_host], updates)
        return Decision(merged.saving, self._monitor.agreed, merged.pace)

    def saves_at_end(self) -> bool:
        return self._monitor.agreed
