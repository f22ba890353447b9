"""Environments around another one.

Glossary of shapes: B batch (env slots stepped together).
"""

from __future__ import annotations

import numpy as np

from boonta.envs.base import BatchedEnv, Episode, TimeStep


class WrappedEnv(BatchedEnv):
    """Passes everything on to another env; a subclass overrides what it changes.

    Attributes:
      env: the other env, of B slots.
    """

    def __init__(self, env: BatchedEnv):
        self.env = env
        self.num_envs, self.spec = env.num_envs, env.spec

    @property
    def steps_per_s(self) -> float | None:  # type: ignore[override]
        return self.env.steps_per_s

    def reset(self) -> TimeStep:
        return self.env.reset()

    def step(self, action: np.ndarray) -> TimeStep:
        return self.env.step(action)

    def executed_action(self, action: np.ndarray) -> np.ndarray:
        return self.env.executed_action(action)

    def episodes(self) -> list[Episode]:
        return self.env.episodes()

    def render(self) -> np.ndarray | None:
        return self.env.render()

    def text(self, slot: int) -> str | None:
        return self.env.text(slot)

    def action_name(self, slot: int, action: int) -> str:
        return self.env.action_name(slot, action)

    def close(self) -> None:
        self.env.close()
