"""The evaluation of programs, by the kind of their environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from boonta.envs.base import Env
from boonta.nodes.arena import Arena
from boonta.nodes.evaluator import Evaluator
from boonta.programs.wiring.program import Group, group


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
    """

    episodes: int = 20
    by: Literal["default", "seconds", "updates", "env_steps"] = "default"
    every_s: float = 30.0
    every_updates: int = 1_000
    every_env_steps: int = 0
    deterministic: bool | None = None
    max_share: float = 0.1
    max_age: int | None = None

    def __post_init__(self) -> None:
        if bool(self.every_env_steps) != (self.by == "env_steps"):
            raise ValueError(
                f"evaluation.every_env_steps is {self.every_env_steps}, by {self.by!r}; it must be above 0 if and only "
                "if by is 'env_steps'"
            )

    @classmethod
    def preset(cls, kind: str) -> Evaluation:
        """The values for a kind of environment: short episodes are cheap, Atari's take a minute."""
        return PRESETS.get(kind, cls())

    @property
    def cadence(self) -> dict[str, Any]:
        """The settings of a node that evaluates, but for the number of episodes."""
        settings = dataclasses.asdict(self)
        left_out = {"episodes"} | ({"by"} if self.by == "default" else set())
        return {name: value for name, value in settings.items() if name not in left_out}

    def described(self, fused: bool, players: int) -> str:
        """When and on what is evaluated, for people.

        A fused program counts updates where others count seconds, and plays no matches in games of two players.
        """
        by = {"default": "updates" if fused else "seconds"}.get(self.by, self.by)
        if fused and (players == 2 or (by == "updates" and not self.every_updates)):
            return "none"
        every = {"seconds": f"{self.every_s:g} s", "updates": f"{self.every_updates:,d} updates"}
        every["env_steps"] = f"{self.every_env_steps:,d} env steps"
        share = "" if fused else f", in at most {self.max_share:.0%} of its node's time"
        return f"{self.episodes} episodes every {every[by]}{share}"

    @property
    def fused(self) -> dict[str, Any]:
        """The settings of `nodes.anakin`.

        Raises:
          ValueError: the interval is in seconds.
        """
        return fused_settings({"episodes": self.episodes, **self.cadence})


def fused_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `nodes.anakin` for those of an evaluator; those that it doesn't have are left out.

    Raises:
      ValueError: the interval is in seconds.
    """
    by = settings.get("by", "updates")
    if by == "seconds":
        raise ValueError("evaluation.by is 'seconds'; a fused program counts 'updates' or 'env_steps'")
    names = {f"every_{by}": "eval_every", "by": "eval_by", "episodes": "eval_episodes", "max_steps": "eval_steps"}
    names |= {"deterministic": "eval_deterministic", "max_age": "eval_max_age"}
    return {ours: settings[name] for name, ours in names.items() if name in settings}


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
    "connect_four": BOARD,
}


def evaluator(env: Env, evaluation: Evaluation, rollouts: int = 100) -> Group:
    """The node that measures params: an `Evaluator`, or an `Arena` where two play, see `opponents_in` for rollouts."""
    if env.spec.num_players == 1:
        return group(Evaluator, episodes=evaluation.episodes, **evaluation.cadence)
    return group(Arena, opponents=opponents_in(env, rollouts), games=evaluation.episodes, **evaluation.cadence)


def opponents_in(env: Env, rollouts: int) -> dict[str, Any]:
    """The players that an agent meets in a game of two: a random one, and in OpenSpiel's games a tree search.

    Args:
      env: the game.
      rollouts: games that the tree search plays out at random before each of its moves.
    """
    from boonta.envs.players import RandomPlayer, UctPlayer

    opponents: dict[str, Any] = {"random": RandomPlayer()}
    if type(env).__name__ == "OpenSpiel":
        opponents["uct"] = UctPlayer(rollouts)
    return opponents
