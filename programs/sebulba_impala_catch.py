"""IMPALA on Catch as threads of one process: impala_catch.py without its processes and services."""

from __future__ import annotations

from agents import impala
from envs.catch import Catch
from nodes.actor import Actor
from nodes.evaluator import Evaluator
from nodes.learner import Learner
from nodes.sebulba import Placement
from programs.sebulba import RunFlags, Sebulba
from programs.solo import main

PLACEMENT = Placement(num_envs=16)


def sebulba_impala_catch(
    run: RunFlags, placement: Placement = PLACEMENT, config: impala.Config = impala.CATCH
) -> Sebulba:
    """Threads act on some of the host's devices, the learner learns on the others, and nothing goes through the host.

    Args:
      run: where, on how many hosts, and how long.
      placement: of threads and environments on devices.
      config: the agent's hyper-parameters.
    """
    env = Catch()
    agent = impala.make(config, env.spec)
    program = Sebulba("sebulba_impala_catch", run, agent, env, placement)
    program.add_learner(Learner)
    program.add_actors(Actor)
    program.add_evaluator(Evaluator, episodes=50, every_s=5.0)
    return program


if __name__ == "__main__":
    main(sebulba_impala_catch)
