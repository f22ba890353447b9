"""A walk through a maze that is drawn anew for every episode: small, and fast.

Glossary of shapes: N cells of a side, S = 2 N - 1 squares of a side, W words.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from boonta.envs import base, drawing
from boonta.envs.jax.base import Game, draw_bits

_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left: rows and columns
_WORD = 32  # bits


class State(NamedTuple):
    """An episode; few numbers, for every step moves them all."""

    maze: jax.Array  # uint32 [W]: a bit for each cell, 1 where it opens upwards; then: is it upside down, mirrored
    agent: jax.Array  # int32 []: the square, row * S + column
    goal: jax.Array  # int32 []: likewise
    steps: jax.Array  # int32 []: taken


@dataclasses.dataclass(frozen=True)
class GridWorld(Game):
    """The agent walks from a random cell to another; reaching it ends the episode with a reward of 1, all else gives 0.

    The maze is drawn at each reset as a binary tree: every cell opens a way up or to the left, whichever a coin says,
    those at the upper edge to the left and those at the left edge up. So from every cell exactly one way leads to the
    corner, and from each cell to each other: the goal can always be reached. The tree is then turned upside down or
    mirrored by two more coins. This makes 2**((N - 1)**2 + 2) mazes, and takes as many random bits as there are cells
    and no loop: drawing one costs hardly more than a step, which counts because a vmapped program draws one each step.

    See "Mazes for Programmers" (Jamis Buck, 2015), chapter 1, "The Binary Tree Algorithm".

    Actions: up, right, down, left; walking into a wall or out of the maze changes nothing.

    Attributes:
      cells: N, of each side. The board has S = 2 N - 1 squares a side: the cells, and what lies between them.
      max_episode_steps: truncates (discount 1 on LAST) after so many steps.
    """

    cells: int = 4
    max_episode_steps: int = 100

    def __post_init__(self) -> None:
        if self.cells < 2:
            raise ValueError(
                f"cells is {self.cells}; it must be at least 2, for the goal is not where the agent starts"
            )
        if self.max_episode_steps < 1:
            raise ValueError(f"max_episode_steps is {self.max_episode_steps}; it must be at least 1")

    @property
    def spec(self) -> base.EnvSpec:
        return base.EnvSpec(
            observations=specs.BoundedArray((self._side, self._side, 3), np.float32, 0.0, 1.0, "board"),
            actions=specs.DiscreteArray(len(_MOVES), np.int32, "action"),
        )

    def reset(self, key: jax.Array) -> State:
        cells = self.cells**2
        bits = draw_bits(key, -(-(cells + 2) // _WORD) + 1)
        # The remainders favour some cells by less than one part in 2**16 / cells.
        start, way = bits[-1] & 0xFFFF, bits[-1] >> 16
        start = start % cells
        goal = (start + 1 + way % (cells - 1)) % cells
        return State(bits[:-1], self._square(start), self._square(goal), jnp.int32(0))

    def move(
        self, key: jax.Array, state: State, action: jax.Array
    ) -> tuple[State, jax.Array, jax.Array | bool, jax.Array | bool]:
        side = self._side
        row, column = state.agent // side, state.agent % side
        down = (action == 2).astype(jnp.int32) - (action == 0)
        right = (action == 1).astype(jnp.int32) - (action == 3)
        to_row, to_column = jnp.clip(row + down, 0, side - 1), jnp.clip(column + right, 0, side - 1)
        free = ~self._wall(state, to_row, to_column)
        agent = jnp.where(free, to_row * side + to_column, state.agent)
        steps = state.steps + 1
        there = agent == state.goal
        return state._replace(agent=agent, steps=steps), there, there, steps >= self.max_episode_steps

    def observe(self, state: State) -> jax.Array:
        """Where are walls, the agent, the goal: float32 [S, S, 3]."""
        side = self._side
        row, column = jnp.arange(side)[:, None], jnp.arange(side)
        square = row * side + column
        planes = [self._wall(state, row, column), square == state.agent, square == state.goal]
        return jnp.stack(planes, axis=-1).astype(jnp.float32)

    def draw(self, state: Any) -> np.ndarray:
        boards = np.asarray(jax.vmap(self.observe)(state.game))  # [B, S, S, 3]
        return drawing.marks(boards)

    @property
    def _side(self) -> int:
        return 2 * self.cells - 1

    def _square(self, cell: jax.Array) -> jax.Array:
        """The square, int32 [], of a cell's number, uint32 []."""
        return (2 * (cell // self.cells) * self._side + 2 * (cell % self.cells)).astype(jnp.int32)

    def _wall(self, state: State, row: jax.Array, column: jax.Array) -> jax.Array:
        """Whether there is a wall at squares, bool [...]; rows and columns [...] of the board that is shown."""
        last, cells = self._side - 1, self.cells**2
        row = jnp.where(_bit(state.maze, cells), last - row, row)
        column = jnp.where(_bit(state.maze, cells + 1), last - column, column)
        between_rows, between_columns = row % 2 == 1, column % 2 == 1
        # What lies between two cells belongs to the one below, or to the right.
        cell_row, cell_column = (row + 1) // 2, (column + 1) // 2
        up = (cell_column == 0) | (_bit(state.maze, cell_row * self.cells + cell_column) & (cell_row > 0))
        return (between_rows & (between_columns | ~up)) | (between_columns & up)


def _bit(words: jax.Array, i: int | jax.Array) -> jax.Array:
    """Bits i [...] of uint32 [W], as bool [...]."""
    word = words[0] if len(words) == 1 else words[i // _WORD]
    return (word >> jnp.asarray(i % _WORD, jnp.uint32)) & 1 == 1
