"""A small and fast grid world: a walk through a maze that is drawn anew for every episode.

Glossary of shapes: N cells per side, S = 2 N - 1 squares per side, W words.
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

_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # Up, right, down, left, as (rows, columns).
_WORD = 32  # Bits per word.


class State(NamedTuple):
    """The state of an episode; it is small, because every step copies it.

    Attributes:
      maze: uint32 [W], one bit per cell, 1 where the cell opens upwards; then one bit for "flipped upside down" and one
        for "mirrored".
      agent: int32 [], the agent's square, row * S + column.
      goal: int32 [], the goal's square.
      steps: int32 [], the steps taken.
    """

    maze: jax.Array
    agent: jax.Array
    goal: jax.Array
    steps: jax.Array


@dataclasses.dataclass(frozen=True)
class GridWorld(Game):
    """The agent walks from one random cell to another; reaching it ends the episode with reward 1, all else gives 0.

    Each reset draws the maze as a binary tree: every cell opens either upwards or to the left, decided by a coin; cells
    at the upper edge open to the left and cells at the left edge upwards. Exactly one path then leads from every cell
    to the corner, so every cell can be reached from every other. Two more coins decide whether the maze is flipped
    upside down and whether it is mirrored. This gives 2**((N - 1)**2 + 2) mazes, and needs one random bit per cell and
    no loop. Drawing a maze must be as cheap as a step, because a vmapped program draws one at each step.

    See "Mazes for Programmers" (Jamis Buck, 2015), chapter 1, "The Binary Tree Algorithm".

    Actions: up, right, down, left; walking into a wall or out of the maze changes nothing.

    Attributes:
      cells: N, cells per side. The board has S = 2 N - 1 squares per side: the cells and the squares between them.
      max_episode_steps: truncates (discount 1 on LAST) after this many steps.
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
        """Returns the planes of the walls, the agent and the goal, float32 [S, S, 3]."""
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
        """Converts the number of a cell, uint32 [], to its square, int32 []."""
        return (2 * (cell // self.cells) * self._side + 2 * (cell % self.cells)).astype(jnp.int32)

    def _wall(self, state: State, row: jax.Array, column: jax.Array) -> jax.Array:
        """Whether there is a wall at (row, column) [...] of the observed board; bool [...]."""
        last, cells = self._side - 1, self.cells**2
        row = jnp.where(_bit(state.maze, cells), last - row, row)
        column = jnp.where(_bit(state.maze, cells + 1), last - column, column)
        between_rows, between_columns = row % 2 == 1, column % 2 == 1
        # A square between two cells belongs to the cell below it or to the right of it.
        cell_row, cell_column = (row + 1) // 2, (column + 1) // 2
        up = (cell_column == 0) | (_bit(state.maze, cell_row * self.cells + cell_column) & (cell_row > 0))
        return (between_rows & (between_columns | ~up)) | (between_columns & up)


def _bit(words: jax.Array, i: int | jax.Array) -> jax.Array:
    """Returns the bits i [...] of the words, uint32 [W], as bool [...]."""
    word = words[0] if len(words) == 1 else words[i // _WORD]
    return (word >> jnp.asarray(i % _WORD, jnp.uint32)) & 1 == 1
