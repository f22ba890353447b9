"""Rainbow: the program of dqn.py with all the parts that its authors combine."""

from __future__ import annotations

import dataclasses

from boonta.agents.dqn import Rainbow
from boonta.envs.base import Env
from boonta.envs.catch import Catch
from boonta.programs.dqn import dqn
from boonta.programs.wiring.evaluation import Evaluation
from boonta.programs.wiring.launch import Pace, PaceFlags, Program, RunFlags, main


def rainbow(
    run: RunFlags,
    config: Rainbow,
    evaluation: Evaluation,
    env: Env = Catch(),  # noqa: B008
    actors: int = 1,
    num_envs: int | None = None,
    pace: PaceFlags = Pace(),  # noqa: B008
) -> Program:
    """Distributions of returns are learned from prioritised replay, and noise in the network explores.

    See "Rainbow: Combining Improvements in Deep Reinforcement Learning" (https://arxiv.org/abs/1710.02298).

    Args:
      run: the run's settings.
      config: the agent's hyper-parameters.
      evaluation: how, and how often, params are evaluated.
      env: the environment that actors act in.
      actors: number of actor processes.
      num_envs: environments per actor; default: 32, or as many as make one batch with --launch anakin.
      pace: how often the learner publishes, and actors fetch, params.
    """
    program = dqn(run, config, evaluation, env, actors, num_envs, pace)
    return dataclasses.replace(program, name="rainbow")


if __name__ == "__main__":
    main(rainbow)
