"""The smallest Sebulba program that learns: a linear policy in a Catch of three rows. Learners tell their params."""

from __future__ import annotations

import os

import numpy as np

from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.hosts.placement import Placement
from boonta.nodes.learner import Learner
from boonta.programs.wiring.sebulba import RunFlags, Sebulba
from boonta.programs.wiring.solo import main
from boonta.tests.helpers import tiny

PLACEMENT = Placement(num_envs=6, threads=1, lag=1)


class TellingLearner(Learner):
    """Writes what this host's copy of the params is after 5 updates, and in the end."""

    def __init__(self, *handles, told_in: str, **settings):
        super().__init__(*handles, **settings)
        self._told_in = told_in

    def step(self) -> None:
        super().step()
        if self._updates == 5:
            self._tell("after-5")

    def close(self) -> None:
        super().close()
        self._tell(f"end-{self._updates}")

    def _tell(self, name: str) -> None:
        params = self._agent.update.params(self._state)["linear"]["w"]
        np.save(f"{self._told_in}/{name}.npy", np.asarray(params))


class BrittleActor(Actor):
    """Breaks after so many steps as its environment says."""

    def count_step(self, env, sequences) -> None:
        super().count_step(env, sequences)
        if self.report()["counts"]["env_steps"] == float(os.environ.get("BREAKS_AFTER", 0)):
            raise RuntimeError("the actor is broken")


def unit_program(
    run: RunFlags, placement: Placement = PLACEMENT, batch_size: int = 12, evaluate: bool = False
) -> Sebulba:
    """Learns Catch.

    Args:
      run: where and how long.
      placement: of threads and environments.
      batch_size: of all hosts.
      evaluate: adds an evaluator.
    """
    env = Catch(rows=3, columns=3)
    program = Sebulba("unit_program", run, tiny.make(env.spec, batch_size), env, placement)
    program.add_learner(TellingLearner, told_in=run.own.workdir)
    program.add_actors(BrittleActor)
    if evaluate:
        program.add_evaluator(Evaluator, episodes=50, every_s=0.5)
    return program


if __name__ == "__main__":
    main(unit_program)
