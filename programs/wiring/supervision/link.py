"""The supervisor's link to the program's monitor: what it answered last, since when it is silent, and reports to it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from boonta.programs.wiring.supervision.grace import LONGEST_LOOK_S
from boonta.programs.wiring.supervision.workers import Worker

UNREPORTED = {"process": "", "activity": "starting", "gone": False, "failure": "", "hung": "", "started": False}


class ProgramMonitor(Protocol):
    """The monitor as a supervisor calls it: a `Monitor` itself, or a client of one; that describes the calls."""

    def expect(self, names: Sequence[str]) -> None: ...

    def status(self) -> dict[str, Any]: ...

    def report_end(self, name: str, failure: str) -> None: ...

    def fail_program(self, failure: str) -> None: ...

    def stop_program(self, reason: str) -> None: ...


class MonitorLink:
    """Calls the monitor, which may be starting, hung, broken or ended, and keeps its last answer.

    Args:
      workers: all nodes of the program, among them the monitor.
      monitor: the one of them that the others report to, or a client of it.

    Attributes:
      worker: the monitor as one of the workers.
      status: what the monitor answered last; empty until it has answered.
      fresh: whether it answered the last call.
      met_at: when its present life first answered, by the monotonic clock; None if it hasn't.
      silent_s: seconds without an answer, since the last one or since the life began.
      no_answer: why it hasn't answered.
      passed_s: seconds between the last two calls. Of these and of `silent_s` long ones count as `LONGEST_LOOK_S`: the
        machine may have slept.
    """

    def __init__(self, workers: Sequence[Worker], monitor: ProgramMonitor):
        self._workers, self._monitor = workers, monitor
        (self.worker,) = (worker for worker in workers if worker.name == "monitor")
        self.status: dict[str, Any] = {}
        self.fresh = False
        self.met_at: float | None = None
        self.silent_s = self.passed_s = 0.0
        self.no_answer = ""
        self._called_at = time.monotonic()

    def refresh(self) -> bool:
        """Asks the monitor for its status; returns whether it answered."""
        self.fresh = False
        if self.worker.death():
            return False
        try:
            if self.met_at is None:
                self._monitor.expect([worker.name for worker in self._workers if worker is not self.worker])
            self.status = self._monitor.status()
            self.met_at = self.met_at or time.monotonic()
            self.fresh, self.silent_s = True, 0.0
        except Exception as error:  # Time and exit codes will show what is wrong with it.
            self.no_answer = repr(error)
            self.silent_s += min(time.monotonic() - self._called_at, LONGEST_LOOK_S)
        self.passed_s = min(time.monotonic() - self._called_at, LONGEST_LOOK_S)
        self._called_at = time.monotonic()
        return self.fresh

    def begin(self) -> None:
        """Notes that the monitor has been started again."""
        self.met_at, self.silent_s, self.no_answer = None, 0.0, ""

    def has_worked(self) -> bool:
        """Whether all nodes have come as far as their work."""
        nodes, own = self.status.get("nodes", {}), {each.name for each in self._workers} - {"monitor"}
        return own <= set(nodes) and all(nodes[name]["started"] for name in own)

    def saving(self) -> list[str]:
        """The living nodes that save, as far as the monitor knows."""
        living = {worker.name for worker in self._workers if worker.alive()}
        return sorted(living & set(self.status.get("saving", ()))) if self.fresh else []

    def reported(self, worker: Worker) -> Mapping[str, Any]:
        """The monitor's status of a worker's present life."""
        node = self.status.get("nodes", {}).get(worker.name)
        if node is None or node["process"].rpartition("/")[2] != str(worker.pid):
            return UNREPORTED
        return node

    def doing(self, worker: Worker) -> str:
        """The activity in a worker's last report to the monitor."""
        if worker is self.worker:
            return "starting" if self.met_at is None else "monitoring"
        node = self.reported(worker)
        return "ended" if node["gone"] else node["activity"]

    def report_end(self, name: str, cause: str = "") -> None:
        """Reports that a worker has died, so that none waits for it at the program's end."""
        with contextlib.suppress(Exception):  # The monitor may be away, too.
            self._monitor.report_end(name, cause and f"{name} {cause}")

    def end(self, reason: str, dead: str = "") -> bool:
        """Asks the monitor to end the program; returns False if it isn't up, or has died.

        Args:
          reason: why it is to end.
          dead: the node whose death is the reason, and makes it a failure; empty if none has died.
        """
        try:
            if dead:
                self._monitor.report_end(dead, reason)
                self._monitor.fail_program(reason)
            else:
                self._monitor.stop_program(reason)
        except Exception:
            return False
        return True
