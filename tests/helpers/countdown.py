"""An environment of Gymnasium's whose observations have an action mask."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces

from boonta.envs.gymnasium import Gymnasium


class Countdown(gymnasium.Env):
    """Takes 1 to 3 from a heap of 5, and never more than are left; the reward is what was taken."""

    action_space = spaces.Discrete(3, start=1)
    observation_space = spaces.Dict(
        {"observation": spaces.Box(0.0, 5.0, (1,), np.float64), "action_mask": spaces.Box(0, 1, (3,), np.int8)}
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 5 - int(self.np_random.integers(2))
        return self.seen(), {}

    def step(self, action):
        assert 1 <= action <= self.left, "an illegal action"
        self.left -= action
        return self.seen(), float(action), self.left == 0, False, {}

    def seen(self):
        mask = (np.arange(1, 4) <= self.left).astype(np.int8)
        return {"observation": np.array([self.left], np.float64), "action_mask": mask}


class Stuck(Countdown):
    def seen(self):
        return super().seen() | {"action_mask": np.zeros(3, np.int8)}


def countdown() -> Gymnasium:
    return Gymnasium(Countdown)
