"""The monitor of one of several hosts, which end after the same update."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from boonta.nodes.hosts.agreement import COUNTERS, HostReport, Merged, merge
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.monitor import Monitor
from boonta.nodes.watch.stopping import Patience, StopRule


class HostMonitor(Monitor):
    """Ends its host's nodes when all hosts have agreed to end, or when one of its own nodes has failed.

    Args:
      name: name of this node.
      folder: this host's folder, for metrics.
      stop: the stop rule, applied to the counters of all hosts.
      hosts: all hosts of the program, and which of them this is.
      settings: passed on to `Monitor`.

    Attributes:
      hosts: all hosts of the program, and which of them this is.
      agreed: whether all hosts end after the newest update.
    """

    def __init__(self, name: str, folder: str, stop: StopRule, hosts: Hosts, **settings: Any):
        super().__init__(name, folder, StopRule(), **settings)
        self.hosts = hosts
        self.agreed = False
        self._joint_rule, self._patience = stop, Patience(stop.patience)
        self._asked = ""  # Why this host was asked to end.
        self._elsewhere: dict[str, float] = {}  # The other hosts' counters.

    def totals(self) -> dict[str, float]:
        """The counters of all hosts, otherwise as in `Monitor`."""
        totals = super().totals()
        for name, value in self._elsewhere.items():
            totals[name] = totals.get(name, 0.0) + value
        return totals

    def beat(self, report: dict[str, Any]) -> dict[str, Any]:
        """See `Monitor.beat`. Each host has a queue of its own, whose actors alone replace what its learner leaves out.

        They share that among the slots of all hosts, so it is told as if every host had left out as much.
        """
        left_out = super().totals().get("stale_sequences", 0.0) * self.hosts.number
        return super().beat(report) | {"left_out": left_out}

    def stop_program(self, reason: str) -> None:
        """Asks every node to end: at once after a failure, otherwise when the other hosts end."""
        with self._state:
            if self._end.failure or self.agreed:
                super().stop_program(reason)
            else:
                self._asked = self._asked or reason

    def host_report(self, saving: bool, pace: float = 0.0) -> HostReport:
        """This host's report to the others; `saving` is whether a checkpoint is due here, `pace` as in `HostReport`."""
        with self._state:
            own, version = super().totals(), self._evaluators.newest(self._absent)
            return HostReport(
                **{name: own.get(name, 0.0) for name in COUNTERS},
                seconds=own["seconds"],
                eval_return=own.get("eval_return", float("nan")),
                pace=pace,
                collapsed=self._log.health.collapsed,
                ending=bool(self._asked),
                saving=saving,
                eval_version=float("nan") if version is None else version,
            )

    def follow(self, reports: Sequence[HostReport], updates: int) -> Merged:
        """Stores the other hosts' counters, and ends this host's nodes if all hosts end now.

        Args:
          reports: one for each host, made with the same update.
          updates: number of updates so far, including that one.
        """
        merged = merge(reports, updates)
        with self._state:
            others = [report for i, report in enumerate(reports) if i != self.hosts.index]
            elsewhere = {name: sum(getattr(report, name) for report in others) for name in COUNTERS}
            self._elsewhere = {name: value for name, value in elsewhere.items() if value}
            first = reports[0]  # It alone evaluates.
            version = None if math.isnan(first.eval_version) else first.eval_version
            impatient = self._patience.ran_out(version, first.eval_return)
            reached = self._joint_rule.reached(merged.totals, merged.collapsed) or impatient
            self.agreed = self.agreed or bool(reached or merged.ending)
            if reached:
                self.finish_program(reached)
            elif merged.ending and self._asked:
                self.stop_program(self._asked)
            elif merged.ending:  # The work isn't done, and this host's exit code must show that.
                self.fail_program(f"host {merged.ending[0]} was asked to end; a checkpoint is saved")
        return merged
