"""The rule by which a program has done its work, and the exit codes of its end."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

COLLAPSE = "collapse"  # The first word of the reason, if a program ends because learning has collapsed.
MOST_UPDATES = 2_000_000_000  # Learners count updates by int32; the rest is for a round that begins below.
# Exit code of such a program: it has neither done its work nor failed at it. On a platform that starts nodes one by one
# it is 0.
COLLAPSED_CODE = 3
ASKED = "was asked to end"  # The end of a failure by which all learners end because one of them was told to leave.


@dataclasses.dataclass(frozen=True)
class StopRule:
    """The limits at which a program is done; the first one reached counts, and None is no limit.

    Attributes:
      env_steps: env steps of all actors together.
      updates: updates of the learner.
      seconds: wall time since the launch, with starting and compiling; parts before a resumption count, too.
      eval_return: mean return of the last evaluation, over all evaluators.
      patience: evaluations in a row without a new best; a resumed run counts anew.
      on_collapse: whether the run also ends, with exit code 3, when learning has collapsed: entropy, returns,
        gradient or hidden states; of a population, all members'.
    """

    env_steps: int | None = None
    updates: int | None = None
    seconds: float | None = None
    eval_return: float | None = None
    patience: int | None = None
    on_collapse: bool = False

    def __post_init__(self) -> None:
        for field in ("env_steps", "updates", "seconds", "patience"):
            value = getattr(self, field)
            if value is not None and not value > 0:  # NaN is refused, too.
                raise ValueError(f"stop.{field} is {value}; it must be above 0, or none for no limit")
        if self.updates is not None and self.updates > MOST_UPDATES:
            raise ValueError(f"stop.updates is {self.updates}; it must be at most {MOST_UPDATES}, for an int32")
        if self.eval_return is not None and math.isnan(self.eval_return):
            raise ValueError("stop.eval_return is nan; it must be a number, or none for no limit")

    @property
    def most_updates(self) -> int:
        """The number of updates with which the run ends in any case."""
        return MOST_UPDATES if self.updates is None else self.updates

    def reached(self, totals: Mapping[str, float], collapsed: bool = False) -> str:
        """A description of the limit that is reached; empty if none is. That of patience is `Patience`'s.

        Args:
          totals: the program's counters, and its last evaluation's mean return.
          collapsed: whether learning has collapsed.
        """
        for name in ("env_steps", "updates", "seconds", "eval_return"):
            limit = getattr(self, name)
            if limit is not None and totals.get(name, float("-inf")) >= limit:
                return f"{name} reached {shown(name, totals[name])} (limit {shown(name, limit)})"
        if totals.get("updates", 0.0) >= MOST_UPDATES:
            return f"updates reached {shown('updates', totals['updates'])}, the most that a learner counts"
        return COLLAPSE if self.on_collapse and collapsed else ""


class Patience:
    """Counts the evaluations in a row whose mean return was not above the best before them.

    Args:
      limit: how many of them end the run; None is no limit.
    """

    def __init__(self, limit: int | None):
        self._limit = limit
        self._best: tuple[float, float] | None = None  # The return, and the updates of the params that had it.
        self._in_vain = 0
        self._counted: float | None = None  # The version of the last evaluation that has counted.

    def ran_out(self, version: float | None, mean: float) -> str:
        """Takes the last evaluation as it is known now; each version counts once.

        Args:
          version: the updates of the params that were evaluated; None before the first evaluation.
          mean: their mean return.

        Returns:
          Why the run ends; empty if it goes on.
        """
        if self._limit is None:
            return ""
        if version is not None and version != self._counted:
            self._counted = version
            if math.isfinite(mean) and (self._best is None or mean > self._best[0]):
                self._best, self._in_vain = (mean, version), 0
            else:
                self._in_vain += 1
        return self._reason() if self._in_vain >= self._limit else ""

    def _reason(self) -> str:
        number = f"{self._in_vain} evaluation{'s' if self._in_vain > 1 else ''} in a row"
        if self._best is None:
            return f"patience: {number} without a finite return"
        best, updates = self._best
        return f"patience: {number} not above the best, {best:.6g} at {shown('updates', updates)} updates"


def shown(name: str, value: float) -> str:
    """A total of a program as text: what is counted is shown whole, as in 32,573,200 env steps."""
    return format(value, ",.0f" if name in ("env_steps", "updates") else ",.6g")


def failure_of(status: Mapping[str, Any]) -> str:
    """The reason why a program has failed, from the monitor's status; empty if it goes on, or ends by its stop rule."""
    return status.get("failure") or ("" if status.get("done") else status.get("reason", ""))


def has_collapsed(status: Mapping[str, Any]) -> bool:
    """Whether a program ends by its stop rule because learning has collapsed."""
    return bool(status.get("done")) and status["reason"].startswith(COLLAPSE)
