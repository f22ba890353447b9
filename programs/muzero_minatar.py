"""MuZero on MinAtar."""

from __future__ import annotations

from boonta.agents import muzero
from boonta.envs.minatar import MinAtar
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.reanalyzer import Reanalyzer
from boonta.nodes.services import Program
from boonta.programs.wiring.cluster import Cluster
from boonta.programs.wiring.launch import RunFlags, main


def muzero_minatar(
    run: RunFlags,
    game: str = "breakout",
    actors: int = 1,
    num_envs: int = 32,
    reanalyzers: int = 0,
    config: muzero.Config = muzero.MINATAR,
) -> Program:
    """Actors fill a replay table, the learner samples it, and its params go back through the variable server.

    Args:
      run: where and how long.
      game: of MinAtar, such as breakout or space_invaders.
      actors: actor processes.
      num_envs: environments of each actor.
      reanalyzers: reanalyzer processes, for a config whose reanalyze_ratio is above 0.
      config: the agent's hyper-parameters.
    """
    env = MinAtar(game, minimal_actions=True)
    agent = muzero.make(config, env.spec)
    cluster = Cluster("muzero_minatar", run, agent, env)
    cluster.add_learner(Learner)
    cluster.add_actors(Actor, actors, num_envs=num_envs)
    if reanalyzers:
        cluster.add_reanalyzers(Reanalyzer, reanalyzers)
    cluster.add_evaluator(Evaluator, episodes=20, every_s=60.0)
    return cluster.program


if __name__ == "__main__":
    main(muzero_minatar)
