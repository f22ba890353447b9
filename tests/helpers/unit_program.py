"""The smallest program for --launch sebulba that learns: a linear policy in a Catch of three rows."""

from __future__ import annotations

import os

import numpy as np

from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.hosts.placement import Placement
from boonta.nodes.learner import Learner
from boonta.programs.wiring.launch import Program, Run, RunFlags, group, main
from boonta.tests.helpers import tiny

HELD_S = 0.2  # Time that an update of a held program takes longer.
RUN = Run(launch="sebulba", placement=Placement(threads=1, lag=1))


class WritingLearner(Learner):
    """Writes what this host's copy of the params is after 5 updates, and in the end; updates slowly while held."""

    def __init__(self, *handles, written_to: str, held_until: str, **settings):
        super().__init__(*handles, **settings)
        self._written_to, self._held_until = written_to, held_until

    def start(self) -> None:
        self.on_close(self._write_end)  # The learner's own saving comes first.
        super().start()

    def step(self) -> None:
        if self._held_until and not os.path.exists(self._held_until):
            self.sleep(HELD_S)
        super().step()
        if self._updates == 5:
            self._write("after-5")

    def _write_end(self) -> None:
        self._write(f"end-{self._updates}")

    def _write(self, name: str) -> None:
        params = self._agent.update.params(self._state)["linear"]["w"]
        np.save(f"{self._written_to}/{name}.npy", np.asarray(params))


class BrittleActor(Actor):
    """Raises after the number of steps in an environment variable."""

    def count_step(self, env, sequences) -> None:
        super().count_step(env, sequences)
        if self.report()["counts"]["env_steps"] == float(os.environ.get("BREAKS_AFTER", 0)):
            raise RuntimeError("the actor is broken")


def unit_program(
    run: RunFlags = RUN, batch_size: int = 12, num_envs: int = 6, evaluate: bool = False, held_until: str = ""
) -> Program:
    """Learns Catch.

    Args:
      run: the run's settings.
      batch_size: sequences per update, over all hosts.
      num_envs: environments of each acting device.
      evaluate: adds an evaluator.
      held_until: a file; until it exists, updates are slow, so that a limit of them can't be reached.
    """
    env = Catch(rows=3, columns=3)
    learner = group(WritingLearner, written_to=run.own.workdir, held_until=held_until)
    groups = [learner, group(BrittleActor, num_envs=num_envs)]
    if evaluate:
        groups.append(group(Evaluator, episodes=50, every_s=0.5))
    return Program("unit_program", run, tiny.make(env.spec, batch_size), env, groups)


if __name__ == "__main__":
    main(unit_program)
