"""Tasks that never end, out of tasks that do.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from boonta.envs import base


@dataclasses.dataclass(frozen=True)
class Continuing:
    """One game after the other in a single stream, which knows no end: no step is LAST, no discount 0.

    The step that ends a game shows its last observation and reward as ever; the next step, whose action does nothing,
    begins the next game with a reward of 0. `episodes()` still gives the games, so that their scores can be read.

    See "Reinforcement Learning: An Introduction" (http://incompleteideas.net/book/the-book-2nd.html), Section 3.3, for
    continuing tasks.

    Attributes:
      env: of one player.
    """

    env: base.Env

    def __post_init__(self) -> None:
        players = self.env.spec.num_players
        if players != 1:
            raise ValueError(f"env has {players} players; allowed: 1, for players would not alternate between games")

    @property
    def spec(self) -> base.EnvSpec:
        return self.env.spec

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        return _ContinuingBatch(self.env(num_envs, seed))


class _ContinuingBatch(base.BatchedEnv):
    """Renames the ends, and the beginnings after them."""

    def __init__(self, env: base.BatchedEnv):
        self.num_envs = env.num_envs
        self.spec = env.spec
        self._env = env

    def reset(self) -> base.TimeStep:
        return self._env.reset()

    def step(self, action: np.ndarray) -> base.TimeStep:
        timestep = self._env.step(action)
        last = timestep.step_type == base.LAST
        return timestep._replace(
            step_type=np.full_like(timestep.step_type, base.MID),
            discount=np.where(last, 1, timestep.discount).astype(np.float32),
        )

    def episodes(self) -> list[base.Episode]:
        return self._env.episodes()

    def render(self) -> np.ndarray | None:
        return self._env.render()

    def close(self) -> None:
        self._env.close()
