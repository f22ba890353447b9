"""Players of board games as opponents to measure agents against: random, tree search, perfect.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import pyspiel

from boonta.envs import base
from boonta.envs.followed import FollowedBatch
from boonta.envs.open_spiel import OpenSpielBatch

# The memory limit of a search tree. It is far above what the rollouts need, because a tree that reaches it drops nodes.
_TREE_MB = 1_000


@dataclasses.dataclass(frozen=True)
class RandomPlayer:
    """Chooses uniformly among the legal actions; plays every game whose observations are a `BoardView`."""

    def __call__(self, env: base.BatchedEnv, timestep: base.TimeStep, rng: np.random.Generator) -> np.ndarray:
        legal = timestep.observation.legal
        return np.where(legal, rng.random(legal.shape), -1.0).argmax(axis=-1).astype(np.int32)


@dataclasses.dataclass(frozen=True)
class UctPlayer:
    """Monte Carlo tree search with random rollouts: OpenSpiel's `MCTSBot` with the settings of its `mcts_example`.

    See "Bandit Based Monte-Carlo Planning" (https://doi.org/10.1007/11871842_29).

    Attributes:
      rollouts: simulations per move; each ends with one random game.
      exploration: UCT's constant c.
      solve: whether to back up proven wins and losses, which makes a stronger opponent ("Monte-Carlo Tree Search
        Solver", https://doi.org/10.1007/978-3-540-87608-3_3).
    """

    rollouts: int
    exploration: float = 2.0
    solve: bool = True

    def __post_init__(self) -> None:
        if self.rollouts < 1:
            raise ValueError(f"rollouts is {self.rollouts}; it must be at least 1")

    def __call__(self, env: base.BatchedEnv, timestep: base.TimeStep, rng: np.random.Generator) -> np.ndarray:
        game = _batch(env).game
        tree_seed, rollout_seed = map(int, rng.integers(2**31, size=2))
        rollout = pyspiel.RandomRolloutEvaluator(1, rollout_seed)
        bot = pyspiel.MCTSBot(
            game, rollout, self.exploration, self.rollouts, _TREE_MB, self.solve, tree_seed, verbose=False
        )
        return _choose(env, timestep, bot.step)


@dataclasses.dataclass(frozen=True)
class PerfectPlayer:
    """Plays a random one of the best moves, found by exhaustive search; for tiny games like tic-tac-toe.

    Positions with the same printed form must have the same value.

    Attributes:
      max_positions: the most positions that a game may have before the player refuses it.
    """

    max_positions: int = 100_000

    def __call__(self, env: base.BatchedEnv, timestep: base.TimeStep, rng: np.random.Generator) -> np.ndarray:
        game = _batch(env).game
        if game.get_type().chance_mode != game.get_type().ChanceMode.DETERMINISTIC:
            raise ValueError(f"PerfectPlayer does not play games of chance such as {game}")
        known = _known_values(str(game))

        def best(state: pyspiel.State) -> int:
            sign = 1 if state.current_player() == 0 else -1
            actions = state.legal_actions()
            values = np.array([sign * _value(state.child(action), known, self.max_positions) for action in actions])
            return actions[rng.choice(np.flatnonzero(values == values.max()))]

        return _choose(env, timestep, best)


def _choose(env: base.BatchedEnv, timestep: base.TimeStep, choose: Callable[[pyspiel.State], int]) -> np.ndarray:
    """Returns an action for every slot, [B]; calls `choose` only where there is more than one legal action."""
    legal = timestep.observation.legal
    action = legal.argmax(axis=-1).astype(np.int32)
    for slot in np.flatnonzero((timestep.step_type != base.LAST) & (legal.sum(axis=-1) > 1)):
        action[slot] = choose(_batch(env).states[slot])
    return action


def _batch(env: base.BatchedEnv) -> OpenSpielBatch:
    if isinstance(env, FollowedBatch):
        return env.follower
    if not isinstance(env, OpenSpielBatch):
        raise ValueError(f"env is a {type(env).__name__}; this player only plays games of envs.open_spiel")
    return env


@functools.cache
def _known_values(game: str) -> dict[str, float]:
    """Returns the process-wide cache of the values of a game's positions."""
    return {}


def _value(state: pyspiel.State, known: dict[str, float], max_positions: int) -> float:
    """Returns the outcome for player 0 under perfect play of both players."""
    if state.is_terminal():
        return state.player_return(0)
    position = f"{state.current_player()} {state}"
    if position not in known:
        if len(known) >= max_positions:
            raise ValueError(f"{state.get_game()} has more than {max_positions} positions: too many for PerfectPlayer")
        values = [_value(state.child(action), known, max_positions) for action in state.legal_actions()]
        known[position] = max(values) if state.current_player() == 0 else min(values)
    return known[position]
