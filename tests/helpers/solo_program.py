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
    max_steps: int | None = None,
) -> Program:
    """The smallest.

    Args:
      run: the run's settings.
      width: batch size.
      num_envs: environments.
      max_steps: env steps after which an evaluation's episode is cut; after a few, Catch gives no reward yet.
    """
    env = Catch()
    evaluator = group(Evaluator, episodes=50, by="updates", every_updates=20, max_steps=max_steps)
    groups = [group(Learner), group(Actor, num_envs=num_envs), evaluator]
    return Program("solo_program", run, tiny.make(env.spec, batch_size=width), env, groups)


if __name__ == "__main__":
    main(solo_program)
