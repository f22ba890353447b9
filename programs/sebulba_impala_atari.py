"""IMPALA on Atari as threads of one process: impala_atari.py without its processes and services."""

from __future__ import annotations

from boonta.agents import impala
from boonta.envs.atari import Atari
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.hosts.placement import Placement
from boonta.nodes.learner import Learner
from boonta.programs.wiring.sebulba import RunFlags, Sebulba
from boonta.programs.wiring.solo import main

PLACEMENT = Placement(num_envs=16)


def sebulba_impala_atari(
    run: RunFlags, game: str = "Pong", placement: Placement = PLACEMENT, config: impala.Config = impala.ATARI
) -> Sebulba:
    """Threads act on some of the host's devices, the learner learns on the others, and nothing goes through the host.

    Args:
      run: where, on how many hosts, and how long.
      game: the game's name, such as Pong or MsPacman.
      placement: of threads and environments on devices.
      config: the agent's hyper-parameters.
    """
    env = Atari(game)
    agent = impala.make(config, env.spec)
    program = Sebulba("sebulba_impala_atari", run, agent, env, placement)
    program.add_learner(Learner)
    program.add_actors(Actor)
    program.add_evaluator(Evaluator, episodes=4, every_s=300.0)
    return program


if __name__ == "__main__":
    main(sebulba_impala_atari)
