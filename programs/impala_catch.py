"""IMPALA on Catch: the smallest whole cluster, and a test that the house stands."""

from __future__ import annotations

from boonta.agents import impala
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.services import Program
from boonta.programs.wiring.cluster import Cluster
from boonta.programs.wiring.launch import RunFlags, main


def impala_catch(
    run: RunFlags,
    actors: int = 1,
    num_envs: int = 32,
    config: impala.Config = impala.CATCH,
) -> Program:
    """Actors fill a queue, the learner empties it, and its params go back through the variable server.

    Args:
      run: where and how long.
      actors: actor processes.
      num_envs: environments of each actor.
      config: the agent's hyper-parameters.
    """
    env = Catch()
    agent = impala.make(config, env.spec)
    cluster = Cluster("impala_catch", run, agent, env)
    cluster.add_learner(Learner)
    cluster.add_actors(Actor, actors, num_envs=num_envs)
    cluster.add_evaluator(Evaluator, episodes=50, every_s=5.0)
    return cluster.program


if __name__ == "__main__":
    main(impala_catch)
