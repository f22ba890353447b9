"""MuZero on CartPole, from Gymnasium."""

from __future__ import annotations

from boonta.agents import muzero
from boonta.envs.gymnasium import Gymnasium
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.services import Program
from boonta.programs.wiring.cluster import Cluster
from boonta.programs.wiring.launch import RunFlags, main


def muzero_cartpole(
    run: RunFlags,
    actors: int = 1,
    num_envs: int = 32,
    config: muzero.Config = muzero.CARTPOLE,
    updates_per_step: int = 1,
    publish_every: int = 1,
    refresh_every: int | None = None,
) -> Program:
    """Actors fill a replay table, the learner samples it, and its params go back through the variable server.

    Args:
      run: where and how long.
      actors: actor processes.
      num_envs: environments of each actor.
      config: the agent's hyper-parameters.
      updates_per_step: updates that the learner dispatches at once.
      publish_every: updates between publications of params.
      refresh_every: env steps between an actor's looks for newer params; none is where sequences may start.
    """
    env = Gymnasium("CartPole-v1")
    agent = muzero.make(config, env.spec)
    cluster = Cluster("muzero_cartpole", run, agent, env)
    cluster.add_learner(Learner, updates_per_step=updates_per_step, publish_every=publish_every)
    cluster.add_actors(Actor, actors, num_envs=num_envs, refresh_every=refresh_every)
    cluster.add_evaluator(Evaluator, episodes=20, every_s=30.0)
    return cluster.program


if __name__ == "__main__":
    main(muzero_cartpole)
