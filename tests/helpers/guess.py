"""An environment whose episodes have a number besides their return: whether the last guess was right, as in `info`."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces

from boonta.envs.gymnasium import Gymnasium

STEPS = 2


class Guess(gymnasium.Env):
    """Shows a bit; the reward of the second and last step is 1 if its action is that bit, else -1."""

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.bit, self.steps = int(self.np_random.integers(2)), 0
        return np.eye(2, dtype=np.float32)[self.bit], {}

    def step(self, action):
        self.steps += 1
        right, last = int(action) == self.bit, self.steps == STEPS
        info = {"is_success": right, "distance": np.float32(not right), "steps": self.steps, "who": "me"}
        info["goal"] = [1, 2]
        reward = (1.0 if right else -1.0) if last else 0.0
        return np.eye(2, dtype=np.float32)[self.bit], reward, last, False, info if last else {}


plain = Gymnasium(Guess)
measured = Gymnasium(Guess, metrics=("is_success", "steps"))
