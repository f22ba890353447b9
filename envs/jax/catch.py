"""Catch as a JAX program: the twin of `envs.catch`; `envs.jax.consistency` checks that the two agree."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from boonta.envs import base, catch
from boonta.envs.jax.base import Game, draw_bits


class State(NamedTuple):
    """The positions of ball and paddle; int32 [] each.

    Attributes:
      row: the ball's row.
      ball: the ball's column.
      paddle: the paddle's column.
    """

    row: jax.Array
    ball: jax.Array
    paddle: jax.Array


@dataclasses.dataclass(frozen=True)
class Catch(Game):
    """See `envs.catch.Catch` for the rules.

    Attributes:
      rows, columns: the size of the board, as in `envs.catch.Catch`.
    """

    rows: int = 10
    columns: int = 5

    def __post_init__(self) -> None:
        catch.Catch(self.rows, self.columns)  # This raises ValueError for impossible boards.

    @property
    def spec(self) -> base.EnvSpec:
        return catch.Catch(self.rows, self.columns).spec

    def reset(self, key: jax.Array) -> State:
        ball = draw_bits(key, 1)[0] % self.columns  # The bias is less than one part in 2**32 / columns.
        return State(jnp.int32(0), ball.astype(jnp.int32), jnp.int32(self.columns // 2))

    def move(
        self, key: jax.Array, state: State, action: jax.Array
    ) -> tuple[State, jax.Array, jax.Array | bool, jax.Array | bool]:
        row, paddle = state.row + 1, jnp.clip(state.paddle + action - 1, 0, self.columns - 1)
        landed = row == self.rows - 1
        reward = jnp.where(landed, jnp.where(paddle == state.ball, 1.0, -1.0), 0.0)
        return State(row, state.ball, paddle), reward, landed, False

    def observe(self, state: State) -> jax.Array:
        """Returns the board, float32 [rows, columns]."""
        row, column = jnp.arange(self.rows)[:, None], jnp.arange(self.columns)
        ball = (row == state.row) & (column == state.ball)
        paddle = (row == self.rows - 1) & (column == state.paddle)
        return (ball | paddle).astype(jnp.float32)
