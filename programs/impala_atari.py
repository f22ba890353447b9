"""IMPALA on Atari: actors, a queue, a learner, a variable server, an evaluator and a monitor, a process each."""

from __future__ import annotations

from boonta.agents import impala
from boonta.envs.atari import Atari
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.services import Program
from boonta.programs.wiring.cluster import Cluster
from boonta.programs.wiring.launch import RunFlags, main


def impala_atari(
    run: RunFlags,
    game: str = "Pong",
    actors: int = 1,
    num_envs: int = 32,
    config: impala.Config = impala.ATARI,
) -> Program:
    """Actors fill a queue, the learner empties it, and its params go back through the variable server.

    Args:
      run: where and how long.
      game: the game's name, such as Pong or MsPacman.
      actors: actor processes.
      num_envs: environments of each actor.
      config: the agent's hyper-parameters.
    """
    env = Atari(game)
    agent = impala.make(config, env.spec)
    cluster = Cluster("impala_atari", run, agent, env)
    cluster.add_learner(Learner)
    cluster.add_actors(Actor, actors, num_envs=num_envs)
    cluster.add_evaluator(Evaluator, episodes=4, every_s=300.0)
    return cluster.program


if __name__ == "__main__":
    main(impala_atari)
