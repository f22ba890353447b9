"""A2C: the program of ppo.py with one epoch of one minibatch, plain returns and RMSProp."""

from __future__ import annotations

import dataclasses

from boonta.agents.ppo import A2C
from boonta.envs.base import Env
from boonta.envs.catch import Catch
from boonta.programs.ppo import ppo
from boonta.programs.wiring.evaluation import Evaluation
from boonta.programs.wiring.launch import Pace, PaceFlags, Program, RunFlags, main


def a2c(
    run: RunFlags,
    config: A2C,
    evaluation: Evaluation,
    env: Env = Catch(),  # noqa: B008
    actors: int = 1,
    num_envs: int | None = None,
    pace: PaceFlags = Pace(),  # noqa: B008
) -> Program:
    """Every update is one step along the gradient of fresh data.

    See "A2C is a special case of PPO" (https://arxiv.org/abs/2205.09123).

    Args:
      run: the run's settings.
      config: the agent's hyper-parameters.
      evaluation: how, and how often, params are evaluated.
      env: the environment that actors act in.
      actors: number of actor processes.
      num_envs: environments per actor; default: as many, up to 32, as divide a batch.
      pace: how often the learner publishes, and actors fetch, params.
    """
    program = ppo(run, config, evaluation, env, actors, num_envs, pace)
    return dataclasses.replace(program, name="a2c")


if __name__ == "__main__":
    main(a2c)
