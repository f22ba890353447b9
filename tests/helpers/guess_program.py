"""A program with the tests' tiny agent, in an environment whose episodes have numbers besides their return."""

from __future__ import annotations

from boonta.envs.base import Env
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.programs.wiring.launch import Program, Run, RunFlags, group, main
from boonta.tests.helpers import tiny
from boonta.tests.helpers.jax_guess import Guess


def guess_program(run: RunFlags = Run(launch="anakin"), env: Env = Guess()) -> Program:  # noqa: B008
    """Learns to guess.

    Args:
      run: the run's settings.
      env: a form of the game.
    """
    evaluation = {"episodes": 10, "every_updates": 20, "every_s": 0.0}
    groups = [group(Learner), group(Actor, num_envs=8), group(Evaluator, **evaluation)]
    return Program("guess_program", run, tiny.make(env.spec), env, groups)


if __name__ == "__main__":
    main(guess_program)
