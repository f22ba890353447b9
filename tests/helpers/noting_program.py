"""A program in one compiled node that notes with how many updates its present life began."""

from __future__ import annotations

from boonta.envs.catch import Catch
from boonta.nodes.anakin import Anakin
from boonta.programs.wiring.launch import Program, Run, RunFlags, group, main
from boonta.tests.helpers import tiny


class NotingAnakin(Anakin):
    """Measures what it goes on from."""

    def start(self) -> None:
        super().start()
        self.measure({"began_with": float(self._updates)})


def noting_program(run: RunFlags = Run(launch="anakin")) -> Program:  # noqa: B008
    """The tests' tiny agent on Catch, without evaluations."""
    env = Catch()
    return Program("noting_program", run, tiny.make(env.spec), env, [group(NotingAnakin, num_envs=8, eval_every=0)])


if __name__ == "__main__":
    main(noting_program)
