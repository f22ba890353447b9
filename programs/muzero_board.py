"""MuZero plays a board game against itself, and is measured in matches."""

from __future__ import annotations

from agents import muzero
from envs.open_spiel import OpenSpiel
from envs.players import RandomPlayer, UctPlayer
from nodes.actor import Actor
from nodes.arena import Arena
from nodes.learner import Learner
from nodes.monitor import Monitor
from nodes.replay import ReplayNode
from nodes.services import Program, ServiceNode
from nodes.variables import VariableServer
from nodes.workers import WorkerNode
from programs.launch import RunFlags, main


def muzero_board(
    run: RunFlags, game: str = "tic_tac_toe", actors: int = 1, num_envs: int = 32, config: muzero.Config = muzero.BOARD
) -> Program:
    """Actors fill a replay table, the learner samples it, and its params go back through the variable server.

    Args:
      run: where and how long.
      game: of two players, as OpenSpiel names it, such as tic_tac_toe or connect_four.
      actors: actor processes.
      num_envs: environments of each actor.
      config: the agent's hyper-parameters.
    """
    env = OpenSpiel(game)
    agent = muzero.make(config, env.spec)
    program = Program("muzero_board")
    with program.group("monitor"):
        monitor = program.add_node(ServiceNode(Monitor, "monitor", run.workdir, run.stop))
    with program.group("variables"):
        variables = program.add_node(ServiceNode(VariableServer, "variables", monitor))
    with program.group("replay"):
        replay = program.add_node(ReplayNode("replay", agent, env.spec, run.path("replay"), monitor))
    with program.group("learner"):
        learner = {"folder": run.path("checkpoints"), "seed": run.seed, "save_every_s": run.save_every_s}
        program.add_node(WorkerNode(Learner, "learner", agent, replay, variables, monitor, **learner))
    with program.group("actor"):
        for i in range(actors):
            settings = {"num_envs": num_envs, "seed": run.seed + i}
            program.add_node(WorkerNode(Actor, f"actor/{i}", agent, env, variables, replay, monitor, **settings))
    with program.group("evaluator"):
        evaluator = {
            "opponents": {"random": RandomPlayer(), "uct": UctPlayer(100)},
            "games": 50,
            "every_s": 30.0,
            "seed": run.seed,
        }
        program.add_node(WorkerNode(Arena, "evaluator", agent, env, variables, monitor, **evaluator))
    return program


if __name__ == "__main__":
    main(muzero_board)
