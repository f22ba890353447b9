"""A program in one compiled node, in small: the tests' tiny agent on Catch."""

from __future__ import annotations

from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.programs.wiring.launch import Program, Run, RunFlags, group, main
from boonta.tests.helpers import tiny


def solo_program(
    run: RunFlags = Run(launch="anakin"),  # noqa: B008
    width: int = 8,
    num_envs: int = 8,
) -> Program:
    """The smallest.

    Args:
      run: the run's settings.
      width: batch size.
      num_envs: environments.
    """
    env = Catch()
    groups = [group(Learner), group(Actor, num_envs=num_envs), group(Evaluator, episodes=50, every_updates=20)]
    return Program("solo_program", run, tiny.make(env.spec, batch_size=width), env, groups)


if __name__ == "__main__":
    main(solo_program)
