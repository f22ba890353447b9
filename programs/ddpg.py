"""DDPG in any env whose actions are real numbers: `./run python programs/ddpg.py gymnasium/Pendulum-v1`."""

from __future__ import annotations

import dataclasses

from boonta.agents.td3 import DDPG
from boonta.envs.base import Env
from boonta.envs.gymnasium import Gymnasium
from boonta.programs.td3 import td3
from boonta.programs.wiring.evaluation import Evaluation
from boonta.programs.wiring.launch import Pace, PaceFlags, Program, RunFlags, main


def ddpg(
    run: RunFlags,
    config: DDPG,
    evaluation: Evaluation,
    env: Env = Gymnasium("Pendulum-v1"),  # noqa: B008
    actors: int = 1,
    num_envs: int = 4,
    pace: PaceFlags = Pace(),  # noqa: B008
) -> Program:
    """The program of TD3, without what TD3 adds to DDPG.

    Args:
      run: the run's settings.
      config: the agent's hyper-parameters.
      evaluation: how, and how often, params are evaluated.
      env: the environment that actors act in.
      actors: number of actor processes.
      num_envs: environments per actor.
      pace: how often the learner publishes, and actors fetch, params.
    """
    return dataclasses.replace(td3(run, config, evaluation, env, actors, num_envs, pace), name="ddpg")


if __name__ == "__main__":
    main(ddpg)
