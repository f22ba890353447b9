"""A match: many simultaneous games of two sides; each side is player 0 in half of them.

Glossary of shapes: B batch (games of a match), A actions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from boonta.agents.base import Nest, Slots
from boonta.envs import base
from boonta.nodes.acting.local import Acting, CompiledPolicy
from boonta.nodes.base import Stopped
from boonta.nodes.matches import elo
from boonta.nodes.watch.stopwatch import Stopwatch

# The number of random moves that start a game between two policies. Without them, two deterministic policies would play
# the same two games over and over.
OPENING = 2

# One of the two sides of a match: `(time step [B], asked bool [B], moves [B] or None) -> action [B]`. It sees every
# time step, and the moves of both sides that led to it, None at the start; its action is used only where it is asked.
Side = Callable[[base.TimeStep, np.ndarray, np.ndarray | None], np.ndarray]
MakeSide = Callable[[base.BatchedEnv, int], Side]  # Makes a side from the batch, which it may read, and a seed.


class MatchResult(NamedTuple):
    """The games of a match.

    Attributes:
      outcome: float64 [B], the outcome for the first side: it won if this is above 0 and lost if below 0.
      cut: bool [B], games that were not over after `max_steps`; their outcome is 0.
      random: bool [B], games that ended within the opening, so that neither side had a move.
    """

    outcome: np.ndarray
    cut: np.ndarray
    random: np.ndarray


def play_match(
    env: base.Env,
    games: int,
    sides: tuple[MakeSide, MakeSide],
    *,
    seed: int,
    stopping: Callable[[], bool],
    max_steps: int = 1_000,
    opening: int = 0,
) -> MatchResult:
    """Plays games at once; the first side is player 0 in the even ones and player 1 in the odd ones.

    Args:
      env: makes the environments; it must have two players.
      games: B, an even number.
      sides: functions that make the two sides.
      seed: seed of the environments, the sides and the opening.
      stopping: called before every step; the match ends when it returns True.
      max_steps: number of moves of both players after which an unfinished game is a draw.
      opening: random moves that start each game; the same in games 2i and 2i + 1, so that neither side profits.

    Raises:
      Stopped: `stopping` returned True.
    """
    env_seed, *side_seeds, opening_seed = np.random.SeedSequence(seed).generate_state(4) >> 1
    rng = np.random.default_rng(opening_seed)
    player = np.arange(games) % 2  # The first side's number as a player, [B].
    outcome = np.full(games, np.nan)  # [B], NaN until the game is over.
    random = np.zeros(games, bool)
    with contextlib.closing(env(games, int(env_seed))) as batch:
        first, second = (make(batch, int(side_seed)) for make, side_seed in zip(sides, side_seeds))
        timestep, action = batch.reset(), None
        for t in range(max_steps):
            if stopping():
                raise Stopped
            asked = np.isnan(outcome) & (t >= opening)
            turn = timestep.observation.player == player
            ours, theirs = first(timestep, asked & turn, action), second(timestep, asked & ~turn, action)
            action = np.where(turn, ours, theirs)
            if t < opening:
                action = _random_moves(timestep.observation.legal, rng)
            timestep = batch.step(action)
            for episode in batch.episodes():
                if np.isnan(outcome[episode.slot]):  # Later games of the slot don't count.
                    score = episode.episode_return  # The outcome for player 0.
                    outcome[episode.slot] = score if player[episode.slot] == 0 else 0.0 - score
                    random[episode.slot] = t < opening
            if not np.isnan(outcome).any():
                break
    return MatchResult(np.nan_to_num(outcome), np.isnan(outcome), random)


def _random_moves(legal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws a legal action [B] from legal [B, A]; games 2i and 2i + 1 with the same choice get the same action."""
    draws = rng.random((len(legal) // 2, legal.shape[1])).repeat(2, axis=0)
    return np.argmax(legal * (1.0 + draws), axis=1).astype(np.int32)


def policy_side(policy: CompiledPolicy, params: Nest, stopwatch: Stopwatch) -> MakeSide:
    """Returns a side that plays a policy with these params."""

    def make(env: base.BatchedEnv, seed: int) -> Side:
        acting = Acting(policy, Slots(env.num_envs), seed, stopwatch)

        def side(timestep: base.TimeStep, asked: np.ndarray, moves: np.ndarray | None) -> np.ndarray:
            if moves is not None:
                acting.executed(moves)  # Else it would remember moves of its own where the other side moved.
            return acting(params, timestep)[0]

        return side

    return make


def player_side(player: base.Player, stopping: Callable[[], bool], stopwatch: Stopwatch) -> MakeSide:
    """Returns a side that a `Player` plays. It may search long, so it acts in one slot at a time, and only if asked.

    The other slots are shown to it as LAST, where there is nothing to choose.
    """

    def make(env: base.BatchedEnv, seed: int) -> Side:
        rng = np.random.default_rng(seed)

        def side(timestep: base.TimeStep, asked: np.ndarray, moves: np.ndarray | None) -> np.ndarray:
            action = np.argmax(timestep.observation.legal, axis=1).astype(np.int32)  # Any legal action.
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


def shares(outcome: Any, opponent: str) -> dict[str, Any]:
    """The shares of games that were won, drawn and lost, and the shares lost as either player, as metrics by name.

    Args:
      outcome: an array [B] of numpy or JAX, the outcomes for a side that is player 0 in the even ones.
      opponent: what metrics call the other side.
    """
    lost = outcome < 0
    parts = {
        "win": outcome > 0,
        "draw": outcome == 0,
        "loss": lost,
        "loss_first": lost[0::2],
        "loss_second": lost[1::2],
    }
    return {f"arena/{opponent}/{name}": part.mean() for name, part in parts.items()}


def result(outcome: np.ndarray) -> elo.Result:
    """Returns the first side's points in a match."""
    return elo.Result(float(np.sum(outcome > 0) + np.sum(outcome == 0) / 2), len(outcome))
