"""Board games of pgx by name, both players in one stream.

See "Pgx: Hardware-Accelerated Parallel Game Simulators for Reinforcement Learning" (https://arxiv.org/abs/2303.17503).

Glossary of shapes: B batch, A actions, H height, W width, C planes.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from boonta.envs import base, drawing
from boonta.envs.jax.base import Game

# The games of pgx with perfect information, no chance, and two players who strictly alternate.
_GAMES = (
    "animal_shogi",
    "chess",
    "connect_four",
    "gardner_chess",
    "go_19x19",
    "go_9x9",
    "hex",
    "othello",
    "shogi",
    "tic_tac_toe",
)


class State(NamedTuple):
    """The state of an episode.

    Attributes:
      board: pgx's own state.
      first: int32 [], pgx's number of the player who began; our number of that player is 0.
    """

    board: Any
    first: jax.Array


@dataclasses.dataclass(frozen=True)
class Pgx(Game):
    """A zero-sum game of perfect information for two players who take turns.

    The view is pgx's observation for the player to move, whose own pieces come first, and one more plane that holds the
    player, 0 or 1. An illegal action loses the game in a compiled program; a batch refuses it.

    Attributes:
      game: a name for `pgx.make`, such as "connect_four", "tic_tac_toe" or "go_9x9".
    """

    game: str

    def __post_init__(self) -> None:
        if self.game not in _GAMES:
            hint = base.suggest(self.game, _GAMES)
            raise ValueError(f"game is {self.game!r}, which is no board game of pgx; {hint}")

    @property
    def spec(self) -> base.EnvSpec:
        planes, actions = _sizes(self.game)
        return base.EnvSpec(
            observations=base.BoardView.spec(specs.Array(planes, np.float32, "view"), actions, num_players=2),
            actions=specs.DiscreteArray(actions, np.int32, "action"),
            num_players=2,
        )

    def reset(self, key: jax.Array) -> State:
        board = _rules(self.game).init(key)
        return State(_bare(board), board.current_player)

    def move(
        self, key: jax.Array, state: State, action: jax.Array
    ) -> tuple[State, jax.Array, jax.Array | bool, jax.Array | bool]:
        mover = state.board.current_player
        board = _rules(self.game).step(state.board, action, key)
        return State(_bare(board), state.first), board.rewards[mover], board.terminated, board.truncated

    def observe(self, state: State) -> base.BoardView:
        """Returns the view, float32 [H, W, C], whose last plane holds the player; legal, bool [A]; player, int32 []."""
        board = state.board
        player = (board.current_player != state.first).astype(jnp.int32)
        planes = _rules(self.game)._observe(board, board.current_player).astype(jnp.float32)
        own = jnp.broadcast_to(player.astype(jnp.float32), (*planes.shape[:-1], 1))
        return base.BoardView(jnp.concatenate([planes, own], axis=-1), board.legal_action_mask, player)

    def draw(self, state: Any) -> np.ndarray:
        """Draws the planes that the first player sees; a cell has the mean colour of its planes."""
        observe = jax.vmap(_rules(self.game)._observe)
        return drawing.mixed(np.asarray(observe(state.game.board, state.game.first), np.float32))


def _bare(board: Any) -> Any:
    """Makes every leaf of a pgx state an array, and empties its observation, which every step would copy."""
    board = board.replace(observation=jnp.zeros((0,), bool))
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), board)


@functools.cache
def _sizes(game: str) -> tuple[tuple[int, ...], int]:
    """Returns the shape of the view, [H, W, C], and the number of actions."""
    board = jax.eval_shape(_rules(game).init, jax.eval_shape(lambda: jax.random.PRNGKey(0)))
    *sides, planes = board.observation.shape
    return (*sides, planes + 1), board.legal_action_mask.shape[0]


@functools.cache
def _rules(game: str) -> Any:
    """Makes pgx's game, outside of any trace, because the cache keeps its constants."""
    with jax.ensure_compile_time_eval():
        import pgx

        return pgx.make(game)
