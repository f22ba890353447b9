"""IMPALA in any environment: `./run python programs/impala.py catch`, `… atari/Pong`, `… minatar/breakout`."""

from __future__ import annotations

from boonta.agents.impala import Config, make
from boonta.envs.base import Env
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.learner import Learner
from boonta.programs.wiring.evaluation import Evaluation, evaluator
from boonta.programs.wiring.launch import Pace, PaceFlags, Program, RunFlags, group, main


def impala(
    run: RunFlags,
    config: Config,
    evaluation: Evaluation,
    env: Env = Catch(),  # noqa: B008
    actors: int = 1,
    num_envs: int | None = None,
    pace: PaceFlags = Pace(),  # noqa: B008
) -> Program:
    """Actors fill a queue, the learner empties it, and its params go back through the variable server.

    Args:
      run: the run's settings.
      config: the agent's hyper-parameters.
      evaluation: how, and how often, params are evaluated.
      env: the environment that actors act in.
      actors: number of actor processes.
      num_envs: environments per actor; default: 32, or as many as make one batch with --launch anakin.
      pace: how often the learner publishes, and actors fetch, params.
    """
    agent = make(config, env.spec)
    groups = [
        group(Learner, **pace.learner),
        group(Actor, actors, num_envs=num_envs, **pace.actor),
        evaluator(env, evaluation),
    ]
    return Program("impala", run, agent, env, groups)


if __name__ == "__main__":
    main(impala)
