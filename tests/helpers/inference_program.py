"""The tests' tiny agent on Catch, with an inference node that acts for two actors."""

from __future__ import annotations

import dataclasses
import sys

from boonta.envs.base import BatchedEnv
from boonta.nodes.actor import Actor
from boonta.nodes.inference import Inference
from boonta.nodes.learner import Learner
from boonta.nodes.monitor import Monitor
from boonta.programs.wiring.launch import Program, RunFlags, group, main
from boonta.tests.helpers import tiny
from boonta.tests.helpers.paced import PacedCatch


@dataclasses.dataclass(frozen=True)
class Light(PacedCatch):
    """Paced Catch; on demand it refuses to be in a process that holds more than stepping and writing need."""

    demanding: bool = False

    def __call__(self, num_envs: int, seed: int) -> BatchedEnv:
        heavy = {"jax", "haiku", "rlax", "tensorflow", "reverb"} & set(sys.modules)
        if self.demanding and heavy:
            raise RuntimeError(f"this actor's process has loaded {sorted(heavy)}")
        return super().__call__(num_envs, seed)


def inference_program(
    run: RunFlags, actors: int = 2, processes: bool = False, max_batch: int = 256, inference: int = 1
) -> Program:
    """The smallest cluster with central inference.

    Args:
      run: the run's settings.
      actors: actor nodes, of 4 environments each.
      processes: each actor has a process, and so nothing in it that it doesn't need.
      max_batch: the most environment slots in a batch of the inference node.
      inference: inference nodes.
    """
    env = Light(demanding=processes)
    agent = tiny.make(env.spec)
    groups = [
        group(Monitor, log_every_s=0.5),
        group(Learner),
        group(Inference, inference, max_batch=max_batch),
        group(Actor, actors, num_envs=4),
    ]
    return Program("inference_program", run, agent, env, groups)


if __name__ == "__main__":
    main(inference_program)
