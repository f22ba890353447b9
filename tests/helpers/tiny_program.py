"""A small whole program: the tests' tiny agent on Catch, with an environment that fails on demand."""

from __future__ import annotations

import dataclasses
import time

from boonta.envs.base import BatchedEnv
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.monitor import Monitor
from boonta.nodes.replay import Replay
from boonta.programs.wiring.launch import Program, RunFlags, group, main
from boonta.tests.helpers import tiny
from boonta.tests.helpers.paced import PacedCatch


@dataclasses.dataclass(frozen=True)
class Fragile(PacedCatch):
    """Paced Catch whose simulator breaks after some steps; 0 never."""

    breaks_after: int = 0

    def __call__(self, num_envs: int, seed: int) -> BatchedEnv:
        env = super().__call__(num_envs, seed)
        env.breaks_after, env.steps, step = self.breaks_after, 0, env.step

        def fragile_step(action):
            env.steps += 1
            if env.steps == env.breaks_after:
                raise RuntimeError("the simulator is broken")
            return step(action)

        env.step = fragile_step
        return env


class SlowReplay(Replay):
    """A replay server that takes longer to save."""

    def __init__(self, *handles, takes_s: float, **settings):
        super().__init__(*handles, **settings)
        self._takes_s = takes_s

    def _take_checkpoint(self, number: int) -> None:
        time.sleep(self._takes_s)
        super()._take_checkpoint(number)


def tiny_program(
    run: RunFlags,
    game: str = "catch",
    breaks_after: int = 0,
    width: int = 8,
    num_envs: int = 8,
    save_takes_s: float = 0.0,
) -> Program:
    """The smallest cluster.

    Args:
      run: the run's settings.
      game: names the run's folder.
      breaks_after: actor steps until the environment raises.
      width: batch size.
      num_envs: environments.
      save_takes_s: seconds that tables take longer to save.
    """
    env = Fragile(breaks_after=breaks_after)
    agent = tiny.make(env.spec, batch_size=width)
    groups = [
        group(Monitor, log_every_s=0.5),
        group(SlowReplay, takes_s=save_takes_s),
        group(Learner),
        group(Actor, num_envs=num_envs),
        group(Evaluator, env=Catch(), episodes=4, every_s=2.0),
    ]
    return Program("tiny_program", run, agent, env, groups)


if __name__ == "__main__":
    main(tiny_program)
