"""MinAtar as it would be if its simulator were slow: what Ape-X's many actors are for, which two cores can show, too.

`apex.yaml` trains on it. A sleeping actor takes no core, so that eight of them don't slow the learner down much.
"""

from __future__ import annotations

import dataclasses
import time
from typing import NoReturn

import numpy as np

from boonta.envs.base import BatchedEnv, TimeStep
from boonta.envs.minatar import MinAtar
from boonta.envs.wrapped import WrappedEnv


@dataclasses.dataclass(frozen=True)
class SlowMinAtar(MinAtar):
    """A game of MinAtar, all of whose slots together take a fixed time for a step.

    Attributes:
      step_s: seconds that a step takes at least; 0.1 is a simulator, or a robot, at 10 steps per second.
    """

    game: str = "breakout"
    step_s: float = 0.1

    kind = "minatar"  # Whose presets are its own, too.

    def __call__(self, num_envs: int, seed: int) -> BatchedEnv:
        return _Slow(super().__call__(num_envs, seed), self.step_s)

    def jax_twin(self) -> NoReturn:
        raise ValueError("a fused program's environment doesn't wait")


class _Slow(WrappedEnv):
    def __init__(self, env: BatchedEnv, step_s: float):
        super().__init__(env)
        self._step_s = step_s

    def step(self, action: np.ndarray) -> TimeStep:
        began = time.monotonic()
        timestep = super().step(action)
        time.sleep(max(0.0, began + self._step_s - time.monotonic()))
        return timestep
