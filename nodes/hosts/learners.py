"""Several learners of one program that are processes of their own, usually one a host, and learn together.

They are the layout of `nodes.hosts.coordination` without the rest of the program: the first learner publishes, counts
and saves, and the program has one monitor. A learner that is asked to end says so with its next update, and goes on
until all know it; their table may be empty by then, since actors end at once, and it learns from its last batch again.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import signal
import threading
import time
from collections.abc import Sequence
from typing import Any

import jax

from boonta.nodes.base import AWAY_S, Node, Stopped
from boonta.nodes.hosts import coordination
from boonta.nodes.hosts.agreement import LOST, HostReport, Merged, SeveralHosts, merge
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.watch.calls import in_thread, polled
from boonta.nodes.watch.reporter import MonitorHandle
from boonta.nodes.watch.stopping import ASKED
from boonta.nodes.watch.stopwatch import CONNECTING

OTHERS = "the other learners"  # What a learner waits for, in the monitor's lines.
PATIENCE_S = 1.0  # Time without data, for a learner that is asked to end, until it makes do with its last batch.
OWN_COUNTS = ("stale_sequences",)  # Counters of what each learner draws.
NOTHING = HostReport(0, 0, 0, 0, 0, float("nan"), 0, 0, 0, 0)  # The counters are the one monitor's.


class Phase(enum.IntEnum):
    """How far a learner has come with the others. What it may do when it is asked to end depends on this."""

    APART = 0  # It hasn't connected to them.
    JOINED = 1  # It may end by itself, and posts that it has no batch for the first update.
    READY = 2  # It has posted that it has a batch, which the others count on; it ends when all agree.
    LEARNING = 3  # So have all others.


class Together:
    """A learner's part in the agreement: what `HostMonitor` is for a host.

    Attributes:
      hosts: all learners, and which one this is.
      agreed: whether all end after the newest update.
      asked_at: when this one was asked to end, by the monotonic clock; None if it wasn't.
    """

    def __init__(self, hosts: Hosts):
        self.hosts = hosts
        self.agreed = False
        self.asked_at: float | None = None

    def host_report(self, saving: bool, pace: float = 0.0) -> HostReport:
        """This learner's report; the counters of the program are at its one monitor, and so are zeros here."""
        return NOTHING._replace(pace=pace, ending=float(self.asked_at is not None), saving=float(saving))

    def follow(self, reports: Sequence[HostReport], updates: int) -> Merged:
        """Takes note whether any learner was asked to end: all end after the same update."""
        merged = merge(reports, updates)
        self.agreed = self.agreed or bool(merged.ending)
        return merged


class SeveralLearners(SeveralHosts):
    """The agreement of several learners that have one monitor.

    Before the first update a learner may end by itself, because no other can be waiting for it inside an update. Each
    posts, once, whether it has a batch for that update. If one has none, all end; nothing was learned that could be
    saved.

    Args:
      hosts: all learners, and which one this is.
      monitor: handle of the program's monitor; None runs the learners without.
    """

    others, shares_tables = OTHERS, True

    def __init__(self, hosts: Hosts, monitor: MonitorHandle | None = None):
        self._part = Together(hosts)
        super().__init__(self._part)
        self._program = monitor
        self._learner: Node | None = None
        self._lock = threading.Lock()
        self._phase = Phase.APART

    def join(self, learner: Node, folder: str) -> None:
        """Connects to the others, in a thread: it may take minutes, and must not outlast the program's end."""
        self._learner = learner
        met = in_thread(lambda: self._part.hosts.join(learner.build, folder))
        reached = functools.partial(polled, met)
        learner.wait_for(OTHERS, reached, self._part.hosts.reach_s + 60.0, f"{CONNECTING} to")
        if threading.current_thread() is threading.main_thread():  # JAX's coordination has taken SIGTERM over.
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM) or signal.SIG_DFL)
        with self._lock:
            self._phase = Phase.JOINED
            if self._part.asked_at is not None:
                self._post(False)

    def resumed(self, counts: dict[str, float]) -> dict[str, float] | None:
        """See `Agreement.resumed`. All have one monitor, which the first one tells."""
        return counts if self.first else None

    def begin(self) -> None:
        """See `Agreement.begin`; it posts that this learner has a batch, and reads what all have posted."""
        if self._phase is Phase.LEARNING:
            return
        with self._lock:
            if self._part.asked_at is None:
                self._phase = Phase.READY
                self._post(True)
        assert self._learner is not None
        if not self._learner.wait_for(OTHERS, self._all_have_batches, AWAY_S):
            self._part.asked_at = self._part.asked_at or time.monotonic()
            self._phase = Phase.JOINED
            self._learner.stop()
            raise Stopped
        self._phase = Phase.LEARNING

    def may_end(self) -> bool:
        """See `Agreement.may_end`; it also tells the monitor, if that is not who asks."""
        with self._lock:
            asks = self._part.asked_at is None
            self._part.asked_at = self._part.asked_at or time.monotonic()
            if asks and self._phase is Phase.JOINED:
                self._post(False)
        asks = asks and not self._part.agreed
        if asks and self._program is not None and self._learner is not None and not self._learner.ending:
            with contextlib.suppress(Exception):  # It may have ended.
                self._program.fail_program(f"{self._learner.name} {ASKED}")
        return self._part.agreed or self._phase < Phase.READY

    def makes_do(self) -> bool:
        """See `Agreement.makes_do`."""
        asked_at = self._part.asked_at
        return asked_at is not None and time.monotonic() - asked_at > PATIENCE_S

    def explain(self, error: BaseException) -> BaseException:
        """See `Agreement.explain`; which of several learners it is, JAX doesn't say."""
        if not isinstance(error, jax.errors.JaxRuntimeError) or "RESOURCE_EXHAUSTED" in str(error):
            return error
        hosts, name = self._part.hosts, self._learner.name if self._learner else "learner"
        label = name.rpartition("/")[0]
        others = ", ".join(f"{label}/{i}" for i in range(hosts.number) if i != hosts.index)
        explained = ConnectionError(f"{LOST}, of {others}, or the connection to it: {error}")
        vars(explained).update(vars(error))  # What the learner was doing.
        explained.__cause__ = error
        return explained

    def leave(self, failed: bool) -> None:
        """See `Agreement.leave`. The others wait until the first one has written its best checkpoint."""
        if self._learner is not None and (failed or self._phase is not Phase.APART):
            with self._learner.stopwatch(f"waiting for {OTHERS}"):
                self._part.hosts.leave(self._part.agreed or not failed)

    def _post(self, has_batch: bool) -> None:
        coordination.post(f"has_batch/{self._part.hosts.index}", str(int(has_batch)))

    def _all_have_batches(self, timeout_s: float) -> bool | None:
        """Whether all learners have a batch for the first update; None while that isn't known."""
        end = time.monotonic() + timeout_s
        while True:
            posted = [coordination.posted(f"has_batch/{i}") for i in range(self._part.hosts.number)]
            if "0" in posted:
                return False
            if None not in posted:
                return True
            if time.monotonic() > end:
                return None
            time.sleep(0.05)


class Uncounted:
    """The monitor for all learners except the first: it sees that they live, and counts their common work once.

    Args:
      monitor: handle of the monitor.
    """

    def __init__(self, monitor: MonitorHandle):
        self._monitor = monitor
        self.report_end = monitor.report_end

    def beat(self, report: dict[str, Any]) -> dict[str, Any]:
        """A heartbeat without metrics, and with counters of its own draws only; the first reports the rest for all."""
        own = {name: count for name, count in report["counts"].items() if name in OWN_COUNTS}
        return self._monitor.beat({**report, "counts": own, "samples": {}, "metrics": {}})

    def request_snapshot(self, number: int) -> None:
        """Does nothing: the first learner has the tables saved."""
