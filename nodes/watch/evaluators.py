"""What the evaluators of a program have found last, and whether the run goes on in spite of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from boonta.nodes.watch import rows
from boonta.nodes.watch.stopping import Patience


class Evaluators:
    """Keeps the newest reports of the nodes that measure evaluations; a fused node is one of them.

    Args:
      patience: see `StopRule.patience`.
    """

    def __init__(self, patience: int | None):
        self._patience = Patience(patience)
        self._reports: dict[str, Mapping[str, Any]] = {}
        self._counted: dict[str, float] = {}  # The version of each one's last evaluation that has counted.
        self._newest: float | None = None

    def add(self, report: Mapping[str, Any]) -> None:
        """Takes a node's newest report, if it measures evaluations, or an earlier life of it has."""
        if report["name"] in self._reports or not report["metrics"].keys().isdisjoint(rows.EVALUATION):
            self._reports[report["name"]] = report

    def last(self, away: Collection[str]) -> dict[str, float]:
        """The last evaluation, and the version whose evaluation has begun; means over several evaluators.

        Args:
          away: nodes that don't count, unless nobody else has measured.
        """
        return rows.evaluation(self._reports.values(), away)

    def newest(self, away: Collection[str]) -> float | None:
        """The updates of the newest params with the last evaluation; None if there is none.

        Of several evaluators there is another one once each has made it.
        """
        versions = rows.measured(self._reports.values(), away).get("eval_version", {})
        if versions and all(version != self._counted.get(name) for name, version in versions.items()):
            self._counted.update(versions)
            self._newest = max(versions.values())
        return self._newest

    def ran_out(self, away: Collection[str]) -> str:
        """Why the run ends if its patience has run out with the last evaluation; empty if it goes on."""
        return self._patience.ran_out(self.newest(away), self.last(away).get("eval_return", math.nan))
