"""The evaluation of programs: the nodes that make it, by the number of players."""

from __future__ import annotations

import dataclasses
from typing import Any

from boonta.envs.base import Env
from boonta.nodes.arena import Arena
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.watch.evaluation import Evaluation
from boonta.programs.wiring.program import Group, group

__all__ = ["Evaluation", "evaluation_of", "evaluator", "opponents_in"]


def evaluation_of(group: Group) -> Evaluation:
    """How the nodes of a group evaluate: evaluators have its fields among their settings, a fused node has it whole."""
    names = [field.name for field in dataclasses.fields(Evaluation) if field.name in group.settings]
    return group.settings.get("evaluation", Evaluation(**{name: group.settings[name] for name in names}))


def evaluator(env: Env, evaluation: Evaluation, rollouts: int = 100) -> Group:
    """The node that measures params: an `Evaluator`, or an `Arena` where two play, see `opponents_in` for rollouts."""
    settings = dataclasses.asdict(evaluation)
    if env.spec.num_players == 1:
        return group(Evaluator, **settings)
    return group(Arena, opponents=opponents_in(env, rollouts), **settings)


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
