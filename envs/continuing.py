"""Continuing tasks made of episodic ones.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from boonta.envs import base
from boonta.envs.wrapped import WrappedEnv


@dataclasses.dataclass(frozen=True)
class Continuing:
    """Plays one game after the other in a single stream without ends: no step is LAST and no discount is 0.

    The step that ends a game still shows its last observation and reward; the next step ignores its action and
    begins the next game with a reward of 0. `episodes()` still returns the games, so their scores can be measured.

    See "Reinforcement Learning: An Introduction" (http://incompleteideas.net/book/the-book-2nd.html), Section 3.3, for
    continuing tasks.

    Attributes:
      env: an environment with one player.
    """

    env: base.Env

    def __post_init__(self) -> None:
        players = self.env.spec.num_players
        if players != 1:
            raise ValueError(f"env has {players} players; allowed: 1, because players would not alternate across games")

    @property
    def spec(self) -> base.EnvSpec:
        return self.env.spec

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        return _ContinuingBatch(self.env(num_envs, seed))


class _ContinuingBatch(WrappedEnv):
    """Turns FIRST and LAST into MID, and the discount of LAST into 1."""

    def step(self, action: np.ndarray) -> base.TimeStep:
        timestep = self.env.step(action)
        last = timestep.step_type == base.LAST
        return timestep._replace(
            step_type=np.full_like(timestep.step_type, base.MID),
            discount=np.where(last, 1, timestep.discount).astype(np.float32),
        )
