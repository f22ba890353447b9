"""A fused program's games of two against a random player, on Nim, whose chances are computed move by move."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Policy
from boonta.envs import base
from boonta.envs.jax.base import Game
from boonta.nodes.fused import stage
from boonta.tests.helpers import nim

KEY = jax.random.PRNGKey(0)
GAMES = 4_000


class Heap(NamedTuple):
    left: jax.Array
    player: jax.Array


@dataclasses.dataclass(frozen=True)
class Nim(Game):
    heap: int

    @property
    def spec(self):
        return nim.Nim(self.heap).spec

    def reset(self, key):
        return Heap(jnp.int32(self.heap), jnp.int32(0))

    def move(self, key, state, action):
        heap = Heap(state.left - action - 1, 1 - state.player)
        return heap, jnp.where(heap.left == 0, 1.0, 0.0), heap.left == 0, False

    def observe(self, state):
        return base.BoardView(state.left[None].astype(jnp.float32), jnp.arange(3) < state.left, state.player)


def policy(number: int) -> Policy:
    """It takes `number`, or where that is 0 as many as the last move took, and 1 at the start."""

    def act(params, key, timestep, last):
        wanted = jnp.full_like(last, number - 1) if number else last
        action = jnp.minimum(wanted, timestep.observation.view[:, 0].astype(jnp.int32) - 1).clip(0)
        return action, {}, action

    return Policy(lambda slots: jnp.zeros(slots.size, jnp.int32), act, executed=lambda state, action: action)


@functools.cache
def outcome(number: int, left: int, ours: bool, last: int = 1) -> float:
    """The mean outcome of that policy from here on, over all of a random player's moves."""
    if left == 0:
        return -1.0 if ours else 1.0  # Whoever has just moved has won.
    if ours:
        taken = min(number or last, left)
        return outcome(number, left - taken, False, taken)
    return float(np.mean([outcome(number, left - taken, True, taken) for taken in range(1, min(3, left) + 1)]))


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_outcomes_are_the_policys_from_either_side_and_its_state_knows_all_moves(number):
    returns, over, _ = stage.play_out(Nim(9), policy(number), (), GAMES, 20, KEY)
    assert over.all() and set(np.unique(returns)) == {-1.0, 1.0}
    for side in (0, 1):
        wanted = outcome(number, 9, ours=side == 0)
        np.testing.assert_allclose(returns[side::2].mean(), wanted, atol=4 / np.sqrt(GAMES / 2))


def test_shares_are_those_that_an_arena_reports():
    found = stage.play(Nim(1), policy(1), (), 20, 20, KEY)  # Whoever begins wins.
    shares = {"win": 0.5, "draw": 0.0, "loss": 0.5, "loss_first": 0.0, "loss_second": 1.0}
    assert {name: float(value) for name, value in found.items() if name.startswith("arena/")} == {
        f"arena/random/{name}": share for name, share in shares.items()
    }
    assert found["eval_return"] == 0.0 and found["eval_return_min"] == -1.0 and found["eval_cut"] == 0.0


@dataclasses.dataclass(frozen=True)
class Points(Nim):
    """Each stone that is taken is a point at once, which is no outcome of the game."""

    def move(self, key, state, action):
        heap, *_, over, cut = super().move(key, state, action)
        return heap, (action + 1).astype(jnp.float32), over, cut


def test_a_game_that_is_not_over_in_time_is_a_draw():
    returns, over, _ = stage.play_out(Points(9), policy(3), (), 20, 2, KEY)
    assert not over.any() and not returns.any()
