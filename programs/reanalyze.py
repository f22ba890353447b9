"""MuZero Reanalyze: the program of muzero.py with nodes that renew old targets."""

from __future__ import annotations

import dataclasses

from boonta.agents.muzero import Config, make
from boonta.envs.base import Env
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.learner import Learner
from boonta.nodes.reanalyzer import Reanalyzer
from boonta.programs.wiring.evaluation import Evaluation, evaluator
from boonta.programs.wiring.launch import Pace, PaceFlags, Program, RunFlags, group, main


def reanalyze(
    run: RunFlags,
    config: Config,
    evaluation: Evaluation,
    env: Env = Catch(),  # noqa: B008
    actors: int = 1,
    num_envs: int | None = None,
    pace: PaceFlags = Pace(),  # noqa: B008
    reanalyzers: int = 1,
    ratio: float = 0.8,
) -> Program:
    """Actors fill a replay table, reanalyzers renew it into another, the learner samples both.

    Args:
      run: the run's settings.
      config: the agent's hyper-parameters; `ratio` replaces its reanalyze_ratio.
      evaluation: how, and how often, params are evaluated.
      env: the environment that actors act in.
      actors: number of actor processes.
      num_envs: environments per actor; default: 32.
      pace: how often the learner publishes, and actors fetch, params.
      reanalyzers: number of reanalyzer processes; with sebulba one thread.
      ratio: share of an update's sequences whose targets are renewed.
    """
    agent = make(dataclasses.replace(config, reanalyze_ratio=ratio), env.spec)
    groups = [
        group(Learner, **pace.learner),
        group(Actor, actors, num_envs=num_envs, **pace.actor),
        group(Reanalyzer, reanalyzers),
        evaluator(env, evaluation),
    ]
    return Program("reanalyze", run, agent, env, groups)


if __name__ == "__main__":
    main(reanalyze)
