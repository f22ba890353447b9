"""Catch whose steps take a while without work: programs that are only watched leave the cores to other tests."""

from __future__ import annotations

import dataclasses
import time

from boonta.envs.base import BatchedEnv, EnvSpec
from boonta.envs.catch import Catch


@dataclasses.dataclass(frozen=True)
class PacedCatch:
    """Catch.

    Attributes:
      rest_s: seconds that a step takes longer; as it is, the tests' tiny agent makes fifty updates a second.
    """

    rest_s: float = 0.005

    @property
    def spec(self) -> EnvSpec:
        return Catch().spec

    def __call__(self, num_envs: int, seed: int) -> BatchedEnv:
        env = Catch()(num_envs, seed)
        step = env.step

        def paced_step(action):
            time.sleep(self.rest_s)
            return step(action)

        env.step = paced_step
        return env
