"""A program in one compiled node that notes with how many updates its present life began."""

from __future__ import annotations

import os

from boonta.envs.catch import Catch
from boonta.nodes.anakin import Anakin
from boonta.nodes.watch.evaluation import NONE
from boonta.programs.wiring.launch import Program, Run, RunFlags, group, main
from boonta.tests.helpers import tiny


class NotingAnakin(Anakin):
    """Measures what it goes on from; once there is a file `leaps_at`, a step counts as ten trillion env steps."""

    def __init__(self, *arguments, leaps_at: str, **settings):
        super().__init__(*arguments, **settings)
        self._leaps_at = leaps_at

    def start(self) -> None:
        super().start()
        self.measure({"began_with": float(self._updates)})

    def step(self) -> None:
        super().step()
        if self._leaps_at and os.path.exists(self._leaps_at):
            self.count(env_steps=1e13)


def noting_program(run: RunFlags = Run(launch="anakin"), leaps_at: str = "") -> Program:  # noqa: B008
    """The tests' tiny agent on Catch, without evaluations.

    Args:
      run: the run's settings.
      leaps_at: a file; see `NotingAnakin`.
    """
    env = Catch()
    node = group(NotingAnakin, num_envs=8, evaluation=NONE, leaps_at=leaps_at)
    return Program("noting_program", run, tiny.make(env.spec), env, [node])


if __name__ == "__main__":
    main(noting_program)
