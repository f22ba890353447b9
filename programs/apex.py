"""Ape-X: the program of dqn.py with two numbers changed, those of its actors and of the ladder of their epsilons."""

from __future__ import annotations

import dataclasses

from boonta.agents.dqn import ApeX
from boonta.envs.base import Env
from boonta.envs.catch import Catch
from boonta.programs.dqn import dqn
from boonta.programs.wiring.evaluation import Evaluation
from boonta.programs.wiring.launch import Pace, PaceFlags, Program, RunFlags, main


def apex(
    run: RunFlags,
    config: ApeX,
    evaluation: Evaluation,
    env: Env = Catch(),  # noqa: B008
    actors: int = 8,
    num_envs: int | None = None,
    pace: PaceFlags = Pace(),  # noqa: B008
) -> Program:
    """Many actors, each of whose slots explores to its own degree, tell the table how wrong they were.

    See "Distributed Prioritized Experience Replay" (https://arxiv.org/abs/1803.00933).

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
    return dataclasses.replace(program, name="apex")


if __name__ == "__main__":
    main(apex)
