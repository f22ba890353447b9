"""What becomes of a fused program's evaluations: rows and health of a population's members, and the best checkpoint."""

from __future__ import annotations

import contextlib
import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from boonta.agents.base import Nest
from boonta.nodes import metrics
from boonta.nodes.fused import stage
from boonta.nodes.fused.dispatch import Pending
from boonta.nodes.fused.learners import EvaluationResult, FusedLearner, Metrics, Row
from boonta.nodes.snapshots.best import Best, Record
from boonta.nodes.watch.evaluation import Evaluation, as_metrics
from boonta.nodes.watch.health import Health


class Evaluations:
    """Keeps the best learner state; of a population, writes a row for each member, and judges its health by it.

    Args:
      fused: the learner, or the population.
      folder: folder of the checkpoints.
      evaluation: how it is evaluated.
      warn: called with a warning; and with the member that it is about, if it is about one.
      keeps: whether this host writes rows and the best state, and warns; of several hosts all compute, one keeps.

    Attributes:
      rows: the members' rows of the last evaluation.
    """

    def __init__(
        self,
        fused: FusedLearner,
        folder: pathlib.Path,
        evaluation: Evaluation,
        warn: Callable[..., None],
        keeps: bool = True,
    ):
        self.rows: list[Row] = []
        self._fused = fused
        self._warn = warn
        self._best = Best(folder, warn) if keeps else None
        logs = keeps and fused.best is not None
        self._log = metrics.Rows(folder.parent / metrics.MEMBERS, warn) if logs else None
        self._health = [Health() for _ in range(fused.learners)]
        if self._log is not None:
            self._remember(folder.parent)
        self._allowed = evaluation.age_allowed

    def add(
        self,
        evaluation: EvaluationResult,
        dispatch: Pending,
        update: Metrics,
        episodes: stage.Episodes,
        *,
        counts: dict[str, float],
        start: dict[str, float],
    ) -> dict[str, float]:
        """Adds an evaluation; returns metrics that show how old it is, and how many members have collapsed.

        Args:
          evaluation: its results.
          dispatch: the one that ended with it; no one else changes its learner state, which was evaluated.
          update: the metrics of the last update before it.
          episodes: those played since the evaluation before, by this process.
          counts: the program's counters.
          start: the mean return of the first episodes, as a metric; empty where it isn't known.
        """
        learner, updates = dispatch.learner, dispatch.updates
        found = as_metrics(version=float(updates)) | self._allowed
        self.rows = self._fused.member_rows(evaluation, update, episodes, updates)
        if self._log is not None:
            for row in self.rows:
                self._log.write(row)
            collapsed = [self._has_collapsed(i, row, update, start) for i, row in enumerate(self.rows)]
            found["members_collapsed"] = float(sum(collapsed))
        if self._fused.best is None:
            score = {name: float(value) for name, value in evaluation.metrics.items()}
            record = Record(score["eval_return"], score.get("eval_return_se"), updates, updates)
        else:
            record, learner = self.best_member(learner, update, updates)
        if self._best is not None:
            self._best.offer(record, lambda: (learner, counts))
        return found

    def best_member(self, learner: Nest, update: Metrics, updates: int) -> tuple[Record, Nest]:
        """The member with the best last evaluation: its record, and its part of a population's learner state.

        Args:
          learner: the state of all members.
          update: the metrics of its last update.
          updates: its number of updates.
        """
        assert self._fused.best is not None
        member, learner = self._fused.best(learner, update, self.rows)
        row = self.rows[member]
        return Record(row["eval_return"], row.get("eval_return_se"), int(row["updates"]), updates, member), learner

    def write(self) -> None:
        """Writes the best checkpoint, unless it has been written."""
        if self._best is not None:
            self._best.write()

    def close(self) -> None:
        """Closes the file of rows."""
        if self._log is not None:
            self._log.close()

    def _remember(self, workdir: pathlib.Path) -> None:
        """Learns from the rows of an earlier part of the run what each member has shown."""
        with contextlib.suppress(OSError):  # There is no earlier part.
            members: dict[float | None, Health] = {float(i): health for i, health in enumerate(self._health)}
            for row in metrics.each(workdir, metrics.MEMBERS):
                if (health := members.get(row.get("member"))) is not None:
                    health.feed(_judged(row))
            for health in self._health:
                health.remember(())

    def _has_collapsed(self, i: int, row: Row, update: Metrics, start: dict[str, float]) -> bool:
        """Whether a member has collapsed."""
        name = self._fused.names[i]
        measured = {metric: float(values[i]) for metric, values in update.items()}
        for warning in self._health[i].feed(measured | _judged(row) | start):
            self._warn(f"{name}: {warning}", name)
        return self._health[i].collapsed or not math.isfinite(row["loss"])


def _judged(row: Mapping[str, Any]) -> dict[str, Any]:
    """A member's row as its health is judged: by its evaluations, since it may play too few episodes between two."""
    return {**row, "return": row.get("eval_return"), "return_se": row.get("eval_return_se")}
