"""A match: many games of two players at once, half of them from either side.

Glossary of shapes: B batch (games of a match), A actions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from boonta.agents.base import Policy
from boonta.envs import base
from boonta.nodes.acting.local import Act, Acting
from boonta.nodes.base import Stopped
from boonta.nodes.matches import elo
from boonta.nodes.metrics import Stopwatch

Nest = Any

# Random moves that start a game between two policies: where neither leaves anything to chance they would else play the
# same two games over and over.
OPENING = 2

# One of the two who play: `(time step [B], asked bool [B]) -> action [B]`. It sees every time step, and its action
# counts where it is asked.
Side = Callable[[base.TimeStep, np.ndarray], np.ndarray]
MakeSide = Callable[[base.BatchedEnv, int], Side]  # from the environments, which it may look at, and a seed


def play_match(
    env: base.Env,
    games: int,
    sides: tuple[MakeSide, MakeSide],
    *,
    seed: int,
    stopping: Callable[[], bool],
    max_steps: int = 1_000,
    opening: int = 0,
) -> np.ndarray:
    """Plays games at once, the first side as player 0 in the even ones and as player 1 in the odd ones.

    Args:
      env: makes the environments, of two players.
      games: B, even.
      sides: make those who play.
      seed: of the environments, the sides and the opening.
      stopping: asked before every step whether to give up.
      max_steps: moves of both players, after which a game that isn't over is a draw.
      opening: random moves that start each game; the same in games 2i and 2i + 1, so that neither side has the luck.

    Returns:
      float64 [B], the outcome for the first side: above 0 it won, below 0 it lost.

    Raises:
      Stopped: `stopping` said so.
    """
    env_seed, *side_seeds, opening_seed = np.random.SeedSequence(seed).generate_state(4) >> 1
    rng = np.random.default_rng(opening_seed)
    player = np.arange(games) % 2  # [B], which one the first side is
    outcome = np.full(games, np.nan)  # [B], NaN until the game is over
    with contextlib.closing(env(games, int(env_seed))) as batch:
        first, second = (make(batch, int(side_seed)) for make, side_seed in zip(sides, side_seeds))
        timestep = batch.reset()
        for t in range(max_steps):
            if stopping():
                raise Stopped
            asked = np.isnan(outcome) & (t >= opening)
            turn = timestep.observation.player == player
            action = np.where(turn, first(timestep, asked & turn), second(timestep, asked & ~turn))
            if t < opening:
                action = _random_moves(timestep.observation.legal, rng)
            timestep = batch.step(action)
            for episode in batch.episodes():
                if np.isnan(outcome[episode.slot]):  # later games of the slot don't count
                    score = episode.episode_return  # player 0's
                    outcome[episode.slot] = score if player[episode.slot] == 0 else 0.0 - score
            if not np.isnan(outcome).any():
                break
    return np.nan_to_num(outcome)


def _random_moves(legal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random legal action [B] from legal [B, A], the same in neighbouring slots that have the same choice."""
    draws = rng.random((len(legal) // 2, legal.shape[1])).repeat(2, axis=0)
    return np.argmax(legal * (1.0 + draws), axis=1).astype(np.int32)


def policy_side(policy: Policy, act: Act, params: Nest, stopwatch: Stopwatch) -> MakeSide:
    """A side that a policy plays with these params; `act` is `jit_policy(policy)`."""

    def make(env: base.BatchedEnv, seed: int) -> Side:
        acting = Acting(policy, act, env.num_envs, seed, stopwatch)
        return lambda timestep, asked: acting(params, timestep)[0]

    return make


def player_side(player: base.Player, stopping: Callable[[], bool], stopwatch: Stopwatch) -> MakeSide:
    """A side that a `Player` plays. It may search long, so it is asked for one slot at a time, and only where it must.

    The other slots it is shown as LAST, where there is nothing to choose.
    """

    def make(env: base.BatchedEnv, seed: int) -> Side:
        rng = np.random.default_rng(seed)

        def side(timestep: base.TimeStep, asked: np.ndarray) -> np.ndarray:
            action = np.argmax(timestep.observation.legal, axis=1).astype(np.int32)  # legal at least
            for slot in np.flatnonzero(asked):
                if stopping():
                    raise Stopped
                step_type = np.full_like(timestep.step_type, base.LAST)
                step_type[slot] = timestep.step_type[slot]
                with stopwatch("letting the opponent move"):
                    action[slot] = player(env, timestep._replace(step_type=step_type), rng)[slot]
            return action

        return side

    return make


def shares(outcome: np.ndarray) -> dict[str, float]:
    """Shares of the games of a match that were won, drawn and lost, and of those lost as either player."""
    lost = outcome < 0
    return {
        "win": float(np.mean(outcome > 0)),
        "draw": float(np.mean(outcome == 0)),
        "loss": float(np.mean(lost)),
        "loss_first": float(np.mean(lost[0::2])),
        "loss_second": float(np.mean(lost[1::2])),
    }


def result(outcome: np.ndarray) -> elo.Result:
    """The points that the first side made in a match."""
    return elo.Result(float(np.sum(outcome > 0) + np.sum(outcome == 0) / 2), len(outcome))
