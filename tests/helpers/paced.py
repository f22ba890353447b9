"""Catch whose steps take a while without work: programs that are only watched leave the cores to other tests."""

from __future__ import annotations

import dataclasses
import time

from boonta.envs.base import BatchedEnv, EnvSpec
from boonta.envs.catch import Catch

REST_S = 0.005  # About fifty updates a second of the tests' tiny agent with 8 environments.


@dataclasses.dataclass(frozen=True)
class PacedCatch:
    """Catch, each of whose steps takes 5 ms."""

    @property
    def spec(self) -> EnvSpec:
        return Catch().spec

    def __call__(self, num_envs: int, seed: int) -> BatchedEnv:
        env = Catch()(num_envs, seed)
        step = env.step

        def paced_step(action):
            time.sleep(REST_S)
            return step(action)

        env.step = paced_step
        return env
