"""The evaluation of programs, by the kind of their environment."""

from __future__ import annotations

import dataclasses
from typing import Any

from boonta.envs.base import Env
from boonta.nodes.arena import Arena
from boonta.nodes.evaluator import Evaluator
from boonta.programs.wiring.program import Group, group


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """How often the newest params are evaluated, and on how many episodes.

    Attributes:
      episodes: episodes per evaluation; in a game of two, games against each opponent.
      every_s: seconds from the start of one evaluation to the next, or more, because of `max_share`.
      max_share: the greatest share of its time that the evaluator plays, above 0 and at most 1.
      every_updates: updates between evaluations in a fused program, which doesn't use `every_s`; 0 makes none there.
    """

    episodes: int = 20
    every_s: float = 30.0
    max_share: float = 0.25
    every_updates: int = 1_000

    @classmethod
    def preset(cls, kind: str) -> Evaluation:
        """The values for a kind of environment: short episodes are cheap, Atari's take a minute."""
        return PRESETS.get(kind, cls())


PRESETS = {
    "catch": Evaluation(episodes=50, every_s=5.0, every_updates=250),
    "grid_world": Evaluation(episodes=50, every_s=5.0),
    "cartpole": Evaluation(episodes=20),
    "minatar": Evaluation(episodes=50, every_s=60.0, every_updates=5_000),
    "atari": Evaluation(episodes=4, every_s=300.0),
    "board": Evaluation(episodes=50, every_s=120.0),
    "connect_four": Evaluation(episodes=50, every_s=120.0),
}


def evaluator(env: Env, evaluation: Evaluation) -> Group:
    """The node that measures params: an `Evaluator`, or an `Arena` where two play."""
    if env.spec.num_players == 1:
        return group(Evaluator, **dataclasses.asdict(evaluation))
    cadence: dict[str, Any] = {"every_s": evaluation.every_s, "max_share": evaluation.max_share}
    return group(Arena, opponents=opponents_in(env), games=evaluation.episodes, **cadence)


def opponents_in(env: Env) -> dict[str, Any]:
    """The players that an agent meets in a game of two: a random one, and a tree search in OpenSpiel's games."""
    from boonta.envs.players import RandomPlayer, UctPlayer

    opponents: dict[str, Any] = {"random": RandomPlayer()}
    if type(env).__name__ == "OpenSpiel":
        opponents["uct"] = UctPlayer(100)
    return opponents
