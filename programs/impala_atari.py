"""IMPALA on Atari: actors, a learner, an evaluator; `Program` adds the queue, the variable server and the monitor."""

from __future__ import annotations

from boonta.agents import impala
from boonta.envs.atari import Atari
from boonta.nodes.actor import Actor
from boonta.nodes.learner import Learner
from boonta.programs.wiring.evaluation import Evaluation, evaluator
from boonta.programs.wiring.launch import Program, RunFlags, group, main


def impala_atari(
    run: RunFlags,
    game: str = "Pong",
    actors: int = 1,
    num_envs: int = 32,
    config: impala.Config = impala.ATARI,
    evaluation: Evaluation = Evaluation.preset("atari"),  # noqa: B008
) -> Program:
    """Actors fill a queue, the learner empties it, and its params go back through the variable server.

    Args:
      run: the run's settings.
      game: the game's name, such as Pong or MsPacman.
      actors: number of actor processes.
      num_envs: environments per actor.
      config: the agent's hyper-parameters.
      evaluation: how, and how often, params are evaluated.
    """
    env = Atari(game)
    agent = impala.make(config, env.spec)
    groups = [
        group(Learner),
        group(Actor, actors, num_envs=num_envs),
        evaluator(env, evaluation),
    ]
    return Program("impala_atari", run, agent, env, groups)


if __name__ == "__main__":
    main(impala_atari)
