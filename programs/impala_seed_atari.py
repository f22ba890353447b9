"""IMPALA on Atari with central inference: actors step environments and write; another node acts for all of them."""

from __future__ import annotations

from boonta.agents import impala
from boonta.envs.atari import Atari
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.inference import Inference
from boonta.nodes.learner import Learner
from boonta.nodes.services import Program
from boonta.programs.wiring.cluster import Cluster
from boonta.programs.wiring.launch import RunFlags, main


def impala_seed_atari(
    run: RunFlags,
    game: str = "Pong",
    actors: int = 8,
    num_envs: int = 4,
    config: impala.Config = impala.ATARI,
) -> Program:
    """As impala_atari, but actors hold neither params nor JAX: they send observations and get actions.

    See "SEED RL: Scalable and Efficient Deep-RL with Accelerated Central Inference" (https://arxiv.org/abs/1910.06591).

    Args:
      run: where and how long.
      game: the game's name, such as Pong or MsPacman.
      actors: actor processes.
      num_envs: environments of each actor.
      config: the agent's hyper-parameters.
    """
    env = Atari(game)
    agent = impala.make(config, env.spec)
    cluster = Cluster("impala_seed_atari", run, agent, env)
    cluster.add_learner(Learner)
    cluster.add_inference(Inference)
    cluster.add_actors(Actor, actors, num_envs=num_envs)
    cluster.add_evaluator(Evaluator, episodes=4, every_s=300.0)
    return cluster.program


if __name__ == "__main__":
    main(impala_seed_atari)
