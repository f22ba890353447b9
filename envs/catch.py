"""Catch: a paddle catches a falling ball. It is the smallest game that needs both vision and planning.

Every agent is tested on it first.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from dm_env import specs

from boonta.envs import base
from boonta.envs.actions import check_action

if TYPE_CHECKING:
    from boonta.envs.jax import catch as jax_catch


@dataclasses.dataclass(frozen=True)
class Catch:
    """A ball falls one row a step from a random column; the paddle in the bottom row moves left, stays or moves right.

    The episode terminates when the ball reaches the bottom row, with a reward of +1 if the paddle is there and -1 if
    not; every other reward is 0. The best mean return is 1, because the paddle starts in the middle and can always get
    there in time. The board is 1 at the ball and at the paddle, 0 elsewhere.

    See "Recurrent Models of Visual Attention" (https://arxiv.org/abs/1406.6247), Section 4.2, for the game, and
    "Behaviour Suite for Reinforcement Learning" (https://arxiv.org/abs/1908.03568), `bsuite/environments/catch.py`,
    for these rules and this size.

    Attributes:
      rows: height of the board; an episode has `rows - 1` steps after FIRST.
      columns: width of the board.
    """

    rows: int = 10
    columns: int = 5

    def __post_init__(self) -> None:
        for field in ("rows", "columns"):
            base.require_side(field, getattr(self, field), least=2)
        if self.rows - 1 < self.columns // 2:
            raise ValueError(
                f"rows is {self.rows}, columns is {self.columns}: the paddle could not reach the outermost column"
                f" in time; rows must be at least {self.columns // 2 + 1}"
            )

    @property
    def spec(self) -> base.EnvSpec:
        return base.EnvSpec(
            observations=specs.BoundedArray((self.rows, self.columns), np.float32, 0.0, 1.0, "board"),
            actions=specs.DiscreteArray(3, np.int32, "action"),  # Left, stay, right.
        )

    def jax_twin(self) -> jax_catch.Catch:
        """The same game in JAX, for fused programs."""
        from boonta.envs.jax import catch as jax_catch

        return jax_catch.Catch(self.rows, self.columns)

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        return _CatchBatch(self, num_envs, seed)


class _CatchBatch(base.BatchedEnv):
    """Steps all slots at once. All episodes have the same length, so all balls are always in the same row."""

    def __init__(self, game: Catch, num_envs: int, seed: int):
        self.num_envs = num_envs
        self.spec = game.spec
        self._rows, self._columns = game.rows, game.columns
        self._slots = np.arange(num_envs)
        self._rng = np.random.default_rng(base.slot_seeds(num_envs, seed))
        self._ball = self._paddle = np.zeros(num_envs, np.int64)  # Columns, [B].
        self._row = game.rows - 1  # The row of all balls; the episode is over in the bottom row.
        self._tracker = base.EpisodeTracker(num_envs)

    def reset(self) -> base.TimeStep:
        self._row = 0
        self._ball = self._rng.integers(self._columns, size=self.num_envs)
        self._paddle = np.full(self.num_envs, self._columns // 2)
        return self._timestep(np.zeros(self.num_envs, np.float32))

    def step(self, action: np.ndarray) -> base.TimeStep:
        action = check_action(action, self.spec.actions, self.num_envs)
        if self._row == self._rows - 1:
            return self.reset()
        self._row += 1
        self._paddle = np.clip(self._paddle + action - 1, 0, self._columns - 1)
        landed = self._row == self._rows - 1
        caught = np.where(self._paddle == self._ball, 1.0, -1.0).astype(np.float32)
        return self._timestep(caught if landed else np.zeros_like(caught))

    def action_name(self, slot: int, action: int) -> str:
        return ("left", "stay", "right")[action]

    def episodes(self) -> list[base.Episode]:
        return self._tracker.take()

    def _timestep(self, reward: np.ndarray) -> base.TimeStep:
        """Returns the current step of every slot, given the reward [B] of the action that led here."""
        first, last = self._row == 0, self._row == self._rows - 1
        step_type = base.FIRST if first else base.LAST if last else base.MID
        board = np.zeros((self.num_envs, self._rows, self._columns), np.float32)
        board[self._slots, self._row, self._ball] = 1.0
        board[self._slots, -1, self._paddle] = 1.0
        self._tracker.update(reward, first=np.full(self.num_envs, first), ended=np.full(self.num_envs, last))
        return base.TimeStep(
            step_type=np.full(self.num_envs, step_type, np.int32),
            reward=reward,
            discount=np.full(self.num_envs, 0.0 if last else 1.0, np.float32),
            observation=board,
        )
