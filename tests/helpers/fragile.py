"""An environment that breaks on request; processes that step it can import it, unlike what is in a test's module."""

from __future__ import annotations

import os
import signal
import time

import dm_env
import numpy as np
from dm_env import specs


class Fragile(dm_env.Environment):
    """Shows its process, and breaks as the action says; the observation is nested, and one leaf is bool.

    Args:
      seed: anything.
      shape: shape of the picture that it shows, whatever its spec says.
    """

    steps_per_s = 25.0

    def __init__(self, seed, shape=(2, 2)):
        self.seed, self.shape = seed, shape

    def observation_spec(self):
        leaves = {"process": specs.Array((), np.int32), "flag": specs.Array((1,), bool)}
        return (leaves, specs.BoundedArray((2, 2), np.uint8, 0, 255))

    def action_spec(self):
        return specs.DiscreteArray(4)

    def reset(self):
        return dm_env.restart(self._shown())

    def step(self, action):
        if action == 1:
            raise LookupError("the motor is gone")
        if action == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == 3:
            time.sleep(1e6)
        return dm_env.transition(1.0, self._shown())

    def render(self):
        return np.full((2, 3, 3), 7, np.uint8)

    def _shown(self):
        return {"process": np.int32(os.getpid()), "flag": np.array([True])}, np.full(self.shape, 250, np.uint8)
