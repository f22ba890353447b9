"""What the evaluators of a program have found last, and whether the run goes on in spite of it."""

from __future__ import annotations

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

    def ran_out(self, away: Collection[str]) -> str:
        """Why the run ends if its patience has run out with the last evaluation; empty if it goes on."""
        versions = rows.measured(self._reports.values(), away).get("eval_version", {})
        return self._patience.ran_out(versions, self.last(away).get("eval_return"))
