"""How params are evaluated: when, on how many episodes and by which policy; and the names of what is found."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from boonta.nodes.watch.means import EVAL_EPISODE

MAX_STEPS = 30_000  # Env steps after which an episode is cut, where nothing else is asked for: some tasks never end.
MAX_MOVES = 1_000  # The same in a game of two: moves of both players.
By = Literal["default", "seconds", "updates", "env_steps"]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """When the newest params are evaluated, on how many episodes, and by which policy.

    Attributes:
      episodes: episodes per evaluation; in a game of two, games against each opponent.
      by: what the interval counts; the default is seconds, and updates in a fused program, which counts no seconds. By
        updates or env steps, runs are evaluated at the same points on any machine, so that they compare.
      every_s: seconds from the start of one evaluation to the next, or more, because of `max_share`.
      every_updates: updates between evaluations; 0 makes none in a fused program, which has others after an eighth,
        a quarter and a half of the first interval.
      every_env_steps: env steps between evaluations; of a population, each member's.
      deterministic: whether the policy takes its best action, or draws one as actors do; None leaves it to the agent.
      max_share: the greatest share of its time that the evaluator plays, above 0 and at most 1.
      max_age: updates after which the run warns that the last evaluation is old; None: five times the longest distance
        between two so far.
      max_steps: env steps after which an episode is cut; None: 30,000. In a game of two, moves until it is a draw;
        None: 1,000.

    Raises:
      ValueError: a field can't work; the message names it, its value and what it must be.
    """

    episodes: int = 20
    by: By = "default"
    every_s: float = 30.0
    every_updates: int = 1_000
    every_env_steps: int = 0
    deterministic: bool | None = None
    max_share: float = 0.1
    max_age: int | None = None
    max_steps: int | None = None

    def __post_init__(self) -> None:
        every = self._every
        if self.by not in ("default", *every):
            raise ValueError(f"evaluation.by is {self.by!r}; it must be one of {', '.join(every)}, or default")
        if not all(math.isfinite(each) and each >= 0 for each in every.values()):
            raise ValueError(
                f"evaluation.every_s is {self.every_s}, every_updates {self.every_updates}, every_env_steps "
                f"{self.every_env_steps}; they must be at least 0, and finite"
            )
        if self.by == "updates" and not self.every_updates:
            raise ValueError("evaluation.every_updates is 0, by 'updates'; it must be above 0")
        if bool(self.every_env_steps) != (self.by == "env_steps"):
            raise ValueError(
                f"evaluation.every_env_steps is {self.every_env_steps}, by {self.by!r}; it must be above 0 if and only "
                "if by is 'env_steps'"
            )
        if not 0.0 < self.max_share <= 1.0:
            raise ValueError(f"evaluation.max_share is {self.max_share}; it must be above 0 and at most 1")
        if self.episodes < 1:
            raise ValueError(f"evaluation.episodes is {self.episodes}; it must be at least 1")
        for name in ("max_age", "max_steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"evaluation.{name} is {value}; it must be at least 1, or none")

    @classmethod
    def preset(cls, kind: str) -> Evaluation:
        """The values for a kind of environment: short episodes are cheap, Atari's take a minute."""
        return PRESETS.get(kind, cls())

    def interval(self, fused: bool = False) -> tuple[str, float]:
        """What the interval counts, and how many of these it has; 0 makes no evaluations in a fused program.

        Raises:
          ValueError: it counts seconds, in a fused program.
        """
        by = self.by if self.by != "default" else "updates" if fused else "seconds"
        if fused and by == "seconds":
            raise ValueError("evaluation.by is 'seconds'; a fused program counts 'updates' or 'env_steps'")
        return by, self._every[by]

    def in_updates(self, env_steps: float) -> int:
        """The interval of a fused program in updates, each of `env_steps`; 0 makes no evaluations."""
        by, every = self.interval(fused=True)
        return max(1, round(every / env_steps if by == "env_steps" else every)) if every else 0

    @property
    def _every(self) -> dict[str, float]:
        """The intervals by what they count."""
        return {"seconds": self.every_s, "updates": self.every_updates, "env_steps": self.every_env_steps}

    def cut_after(self, players: int) -> int:
        """Env steps after which an episode of one player is cut, or a game of two is a draw."""
        return self.max_steps or (MAX_STEPS if players == 1 else MAX_MOVES)

    @property
    def age_allowed(self) -> dict[str, float]:
        """The metric by which an evaluation is called old; empty where the distances so far decide."""
        return {} if self.max_age is None else {"eval_age_allowed": float(self.max_age)}

    def described(self, fused: bool) -> str:
        """When and on what is evaluated, for people."""
        by, every = self.interval(fused)
        if fused and not every:
            return "none"
        share = "" if fused else f", in at most {self.max_share:.0%} of its node's time"
        interval = f"{every:g} s" if by == "seconds" else f"{every:,d} {by.replace('_', ' ')}"
        return f"{self.episodes} episodes every {interval}{share}"


# The preset of games of two players.
BOARD = Evaluation(episodes=50, every_s=120.0, max_share=0.25)

PRESETS = {
    "catch": Evaluation(episodes=50, every_s=5.0, every_updates=250, max_share=0.25),
    "grid_world": Evaluation(episodes=50, every_s=5.0, max_share=0.25),
    "cartpole": Evaluation(episodes=20),
    "minatar": Evaluation(episodes=50, every_s=60.0, every_updates=5_000),
    "atari": Evaluation(episodes=4, every_s=300.0),
    "dm_control": Evaluation(episodes=10, every_s=60.0),
    "dm_control_pixels": Evaluation(episodes=4, every_s=300.0),
    "mujoco": Evaluation(episodes=10, every_s=60.0),
    "brax": Evaluation(episodes=10, every_s=60.0),
    "board": BOARD,
    # Its searches have 25 times the simulations of those in training: a long match has as many as 400 updates.
    "connect_four": dataclasses.replace(BOARD, every_updates=5_000),
}
NONE = Evaluation(every_updates=0)  # A fused program makes no evaluations by this one.


def as_metrics(
    *,
    mean: Any = None,
    error: Any = None,
    least: Any = None,
    cut: Any = None,
    version: float | None = None,
    episodes: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """The metrics of an evaluation, by name; what is None is left out.

    Args:
      mean: the mean of the returns.
      error: its standard error.
      least: the least return.
      cut: the number of episodes that were cut.
      version: updates that the evaluated params had.
      episodes: means of the environment's other numbers of episodes, by name.
    """
    named = {"eval_return": mean, "eval_return_se": error, "eval_return_min": least, "eval_cut": cut}
    found = {name: value for name, value in {**named, "eval_version": version}.items() if value is not None}
    return found | {EVAL_EPISODE + name: value for name, value in episodes.items()}
