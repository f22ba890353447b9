"""The rule by which a program has done its work, and the exit codes of its end."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

COLLAPSE = "collapse"  # The first word of the reason, if a program ends because learning has collapsed.
MOST_UPDATES = 2_000_000_000  # Learners count updates by int32; the rest is for a round that begins below.
COLLAPSED_CODE = 3  # Exit code of such a program: it has neither done its work nor failed at it.


@dataclasses.dataclass(frozen=True)
class StopRule:
    """The limits at which a program is done; the first one reached counts, and None is no limit.

    Attributes:
      env_steps: the run ends after so many steps of all actors' environments.
      updates: the run ends after so many updates of the learner.
      seconds: the run ends after so much wall time since the launch, with starting and compiling; parts before a
        resumption count, too.
      eval_return: the run ends when the last evaluation has this mean return, over all evaluators; the last checkpoint
        may be a few updates newer.
      on_collapse: whether the run also ends, with exit code 3, when its health shows that learning has collapsed:
        entropy, returns or gradient; of a population, those of all members. On a platform that starts nodes one by one
        the code is 0.
    """

    env_steps: int | None = None
    updates: int | None = None
    seconds: float | None = None
    eval_return: float | None = None
    on_collapse: bool = False

    def __post_init__(self) -> None:
        for field in ("env_steps", "updates", "seconds"):
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
        """A description of the limit that is reached; empty if none is.

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


def shown(name: str, value: float) -> str:
    """A total of a program as text: what is counted is shown whole, as in 32,573,200 env steps."""
    return format(value, ",.0f" if name in ("env_steps", "updates") else ",.6g")


def failure_of(status: Mapping[str, Any]) -> str:
    """The reason why a program has failed, from the monitor's status; empty if it goes on, or ends by its stop rule."""
    return status.get("failure") or ("" if status.get("done") else status.get("reason", ""))


def has_collapsed(status: Mapping[str, Any]) -> bool:
    """Whether a program ends by its stop rule because learning has collapsed."""
    return bool(status.get("done")) and status["reason"].startswith(COLLAPSE)
