"""A summary of a run's rows so far: the best and the lowest return, and the typical size of norms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

Numbers = Mapping[str, float]

EPISODES = 100  # Least number of episodes of a mean return that counts.
CHANCE = 4.0  # Standard errors of each of two means within which a difference counts as chance: there are thousands.
NEAR_BEST = 0.25  # Share of the range of returns.
FEW = 5  # Least number of rows for a typical value.
EXPLODED = 1e3  # Factor of the typical value; norms that differ from it by more don't change it.
NOTHING = 1e-12  # A smaller norm counts as 0.


class Mean(NamedTuple):
    """A mean return, and its standard error."""

    value: float
    error: float

    def is_above(self, other: Mean) -> bool:
        """Whether it is higher by more than chance."""
        return self.value - other.value > CHANCE * (self.error + other.error)


class Seen:
    """A summary of a run's rows so far.

    Attributes:
      score: the newest mean return over enough episodes; None before the first. In a run that trains on no episodes of
        its own, it is that of the newest evaluation.
      stale: whether the score is an evaluation's, and the newest row has no new one.
      best, lowest: the highest and the lowest score; the lowest includes the return at the start. The best doesn't,
        since the first episodes to end are the short ones, which in a task with a goal are those that reach it.
      started_at: the mean return of the first episodes of a run that began with fresh params; None where unknown.
      most_entropy: the highest entropy of the policy, or that of a uniform one where the agent measures it.
      longest_gap: the greatest number of updates between two evaluations; None before the second.
    """

    def __init__(self) -> None:
        self._forget_scores()
        self._trains = self.stale = False
        self.started_at: float | None = None
        self.most_entropy = 0.0
        self.longest_gap: float | None = None
        self._evaluated: float | None = None
        self._logs: dict[str, list[float]] = {}  # The number of values of each metric, and the sum of their logarithms.

    def add(self, row: Numbers) -> None:
        """Adds a row, except for `typical`."""
        self.most_entropy = max(self.most_entropy, row.get("entropy", 0.0), row.get("entropy_uniform", 0.0))
        if "return_start" in row:
            self.started_at = row["return_start"]
        version = row.get("eval_version", self._evaluated)
        evaluated = version != self._evaluated
        if version is not None and evaluated:
            if self._evaluated is not None:
                self.longest_gap = max(self.longest_gap or 0.0, version - self._evaluated)
            self._evaluated = version
        if "return" in row and not self._trains:
            self._trains = True
            self._forget_scores()  # Those of evaluations, which may use another policy.
        name = "return" if self._trains else "eval_return"
        enough = row.get("return_episodes", EPISODES) >= EPISODES if self._trains else evaluated
        scored = enough and name in row and f"{name}_se" in row
        if scored:
            self._add_score(Mean(row[name], row[f"{name}_se"]))
        self.stale = not self._trains and not scored

    def add_typical(self, row: Numbers) -> None:
        """Adds the row's norms to the typical values, unless they are far from them."""
        for name in norms(row, "grad_norm", "update_norm"):
            typical = self.typical(name)
            if typical is not None and not typical / EXPLODED < row[name] < typical * EXPLODED:
                continue
            if NOTHING < row[name] < math.inf:
                logs = self._logs.setdefault(name, [0.0, 0.0])
                logs[0] += 1
                logs[1] += math.log(row[name])

    def typical(self, name: str) -> float | None:
        """The geometric mean of a norm so far; None before there are enough rows."""
        number, total = self._logs.get(name, (0.0, 0.0))
        return math.exp(total / number) if number >= FEW else None

    def _forget_scores(self) -> None:
        self.score: Mean | None = None
        self.best, self.lowest = Mean(-math.inf, 0.0), Mean(math.inf, 0.0)

    def _add_score(self, score: Mean) -> None:
        start = [] if self.started_at is None else [Mean(self.started_at, score.error)]
        self.score, self.best, self.lowest = score, max(self.best, score), min(self.lowest, score, *start)

    @property
    def range(self) -> float:
        """The distance between the best and the lowest return, if it is more than chance; otherwise 0."""
        return self.best.value - self.lowest.value if self.best.is_above(self.lowest) else 0.0

    @property
    def does_well(self) -> bool:
        """Whether returns have risen and are near their best; also true where this isn't known."""
        if self.score is None or not self.range:
            return self.score is None or self.started_at is None
        return self.score.value >= self.best.value - NEAR_BEST * self.range


def norms(row: Numbers, *metrics: str) -> list[str]:
    """The names of these norms in a row: an agent with several optimisers has one for each, as grad_norm/NAME."""
    return [name for name in row if name.partition("/")[0] in metrics]
