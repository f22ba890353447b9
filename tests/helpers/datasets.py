"""Minari's data sets, in a folder of their own."""

from __future__ import annotations

import gymnasium
import minari
import numpy as np
from gymnasium import spaces


def record(name: str, env: gymnasium.Env, episodes: int, action: int | None = None) -> minari.MinariDataset:
    """Episodes of a random player, or of one that always takes the same action."""
    collector = minari.DataCollector(env)
    env.action_space.seed(0)
    for number in range(episodes):
        collector.reset(seed=number)
        ended = False
        while not ended:
            *_, terminated, truncated, _ = collector.step(env.action_space.sample() if action is None else action)
            ended = terminated or truncated
    dataset = collector.create_dataset(name)
    collector.close()
    return dataset


class Everything(gymnasium.Env):
    """Observations of every kind of space, which count the steps; the third truncates. Actions are of two choices."""

    observation_space = spaces.Dict(
        where=spaces.Discrete(5, start=-2),
        both=spaces.Tuple((spaces.Box(-9.0, 9.0, (2,), np.float64), spaces.MultiBinary(2))),
        dials=spaces.MultiDiscrete([4, 5], start=[1, 0]),
    )
    action_space = spaces.MultiDiscrete([2, 3], start=[1, 5])

    def _observation(self):
        t = self.steps
        both = (np.full(2, t / 4), np.array([t % 2, 1], np.int8))
        return {"where": np.int64(t - 2), "both": both, "dials": np.array([t + 1, 4 - t])}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.steps += 1
        return self._observation(), float(action[1]), False, self.steps == 3, {}
