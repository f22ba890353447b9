"""DQN as `programs/dqn.py` has it, with rows of metrics so close that tests needn't wait long for the next ones."""

from __future__ import annotations

import dataclasses

from boonta.agents.dqn import Config
from boonta.envs.base import Env
from boonta.envs.catch import Catch
from boonta.nodes.monitor import Monitor
from boonta.programs.dqn import dqn
from boonta.programs.wiring.evaluation import Evaluation
from boonta.programs.wiring.launch import Program, RunFlags, group, main


def shards_program(
    run: RunFlags,
    config: Config,
    evaluation: Evaluation,
    env: Env = Catch(),  # noqa: B008
) -> Program:
    """As `programs.dqn.dqn`.

    Args:
      run: the run's settings.
      config: the agent's hyper-parameters.
      evaluation: how often params are evaluated, and on how many episodes.
      env: the environment that actors act in.
    """
    program = dqn(run, config, evaluation, env)
    return dataclasses.replace(program, groups=[group(Monitor, log_every_s=2.0), *program.groups])


if __name__ == "__main__":
    main(shards_program)
