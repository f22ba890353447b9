"""MuZero Reanalyze on Catch: muzero_catch.py with nodes that renew old targets."""

from __future__ import annotations

from boonta.agents import muzero
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.reanalyzer import Reanalyzer
from boonta.nodes.services import Program
from boonta.programs.wiring.cluster import Cluster
from boonta.programs.wiring.launch import RunFlags, main


def muzero_reanalyze_catch(
    run: RunFlags,
    actors: int = 1,
    num_envs: int = 32,
    reanalyzers: int = 1,
    config: muzero.Config = muzero.REANALYZE_CATCH,
) -> Program:
    """Actors fill a replay table, reanalyzers renew it into another, the learner samples both.

    Args:
      run: where and how long.
      actors: actor processes.
      num_envs: environments of each actor.
      reanalyzers: reanalyzer processes.
      config: the agent's hyper-parameters.
    """
    env = Catch()
    agent = muzero.make(config, env.spec)
    cluster = Cluster("muzero_reanalyze_catch", run, agent, env)
    cluster.add_learner(Learner)
    cluster.add_actors(Actor, actors, num_envs=num_envs)
    cluster.add_reanalyzers(Reanalyzer, reanalyzers)
    cluster.add_evaluator(Evaluator, episodes=50, every_s=5.0)
    return cluster.program


if __name__ == "__main__":
    main(muzero_reanalyze_catch)
