"""An Acme actor that plays Catch by a rule, as whoever has Acme actors might bring it along."""

from __future__ import annotations

import acme
import numpy as np


class Scripted(acme.Actor):
    """Moves towards the ball, or at random in a share of the steps."""

    def __init__(self, adder, at_random: float = 0.5, seed: int = 0):
        self._adder, self._at_random = adder, at_random
        self._rng = np.random.default_rng(seed)

    def select_action(self, observation):
        if self._rng.random() < self._at_random:
            return np.int32(self._rng.integers(3))
        ball, paddle = np.argmax(observation[:-1].sum(axis=0)), np.argmax(observation[-1])
        return np.int32(1 + np.sign(ball - paddle))

    def observe_first(self, timestep):
        self._adder.add_first(timestep)

    def observe(self, action, next_timestep):
        self._adder.add(action, next_timestep)

    def update(self, wait=False):
        """There is nothing to learn."""


def make_loop(parts):
    actor = Scripted(parts.adder, seed=parts.seed)
    return acme.EnvironmentLoop(parts.environment, actor, parts.counter, parts.logger)
