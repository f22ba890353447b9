"""MuZero plays a board game against itself, and is measured in matches."""

from __future__ import annotations

from typing import Literal

from boonta.agents import muzero
from boonta.envs.open_spiel import OpenSpiel
from boonta.envs.players import RandomPlayer, UctPlayer
from boonta.nodes.actor import Actor
from boonta.nodes.arena import Arena
from boonta.nodes.learner import Learner
from boonta.nodes.services import Program
from boonta.programs.wiring.cluster import Cluster
from boonta.programs.wiring.launch import RunFlags, main


def muzero_board(
    run: RunFlags,
    game: str = "tic_tac_toe",
    view: Literal["planes", "flat"] = "planes",
    passes: bool = False,
    actors: int = 1,
    num_envs: int = 32,
    config: muzero.Config = muzero.BOARD,
) -> Program:
    """Actors fill a replay table, the learner samples it, and its params go back through the variable server.

    Args:
      run: where and how long.
      game: of two players, as OpenSpiel names it, such as tic_tac_toe, connect_four or "pig(players=2,winscore=20)".
      view: what the agent sees of it; "flat" every game has.
      passes: in a game where one may move twice, the other passes.
      actors: actor processes.
      num_envs: environments of each actor.
      config: the agent's hyper-parameters.
    """
    env = OpenSpiel(game, view, passes)
    agent = muzero.make(config, env.spec)
    cluster = Cluster("muzero_board", run, agent, env)
    cluster.add_learner(Learner)
    cluster.add_actors(Actor, actors, num_envs=num_envs)
    opponents = {"random": RandomPlayer(), "uct": UctPlayer(100)}
    cluster.add_evaluator(Arena, opponents=opponents, games=50, every_s=120.0)
    return cluster.program


if __name__ == "__main__":
    main(muzero_board)
