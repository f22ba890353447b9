"""Matches on Nim, where every outcome is known in advance."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Policy
from boonta.envs.base import Episode
from boonta.nodes.acting.local import jit_policy
from boonta.nodes.base import Stopped
from boonta.nodes.matches.match import play_match, player_side, policy_side, result, shares
from boonta.nodes.watch.stopwatch import Stopwatch
from boonta.tests.helpers.nim import Nim, Take, _NimBatch, agent, params

POLICY = jit_policy(agent().eval_policy)


def never():
    return False


def match(*given, **settings):
    return played(*given, **settings).outcome


def played(env, number, player, stopping=never, games=4, **settings):
    ours = policy_side(POLICY, params(number), Stopwatch())
    sides = (ours, player_side(player, stopping, Stopwatch()))
    return play_match(env, games, sides, stopping=stopping, **{"seed": 0, **settings})


def test_outcomes_are_the_first_sides_from_either_side():
    assert list(match(Nim(5), 1, Take(1))) == [1, -1, 1, -1]  # The first player takes the fifth.
    assert list(match(Nim(6), 1, Take(1))) == [-1, 1, -1, 1]
    assert list(match(Nim(5), 2, Take(1))) == [1, 1, 1, 1]  # 5-3-2-0 and 5-4-2-1-0
    assert list(match(Nim(5), 1, Take(2))) == [-1, -1, -1, -1]


def test_draws():
    assert list(match(Nim(5, draw_at=3), 1, Take(1))) == [0, 0, 0, 0]
    assert list(match(Nim(5, draw_at=3), 1, Take(2))) == [-1, 0, -1, 0]  # 5-4-2-1-0, and 5-3


def test_only_the_first_game_of_a_slot_counts_and_a_player_is_asked_for_its_moves_alone():
    player = Take(1)
    match(Nim(5), 2, player)
    assert player.asked == 2 * 1 + 2 * 2  # 5-3-[2]-0 and 5-[4]-2-[1]-0, while even slots are over already


def test_an_outcome_stays_that_of_the_first_game_while_others_go_on(monkeypatch):
    ends = iter([[Episode(0, 1.0, 1)], [Episode(0, -1.0, 1)], [Episode(1, -1.0, 3)]])
    monkeypatch.setattr(_NimBatch, "episodes", lambda batch: next(ends))
    assert list(match(Nim(9), 1, Take(1), games=2)) == [1, 1]


def test_a_player_is_not_asked_in_games_after_the_first():
    player = Take(1)
    assert list(match(Nim(20, draw_at=19), 2, player)) == [1, 0, 1, 0]
    assert player.asked == 2 * 6 + 2 * 1  # 20-18-[17]-…-3-[2]-0, and meanwhile 20-[19] again and again


def test_a_policys_state_sees_every_time_step():
    """With 0 the agent takes as many as it has seen steps. 6-[5]-3-[2]-0 wins only if it saw the opponent's, too."""
    assert list(match(Nim(6), 0, Take(1)))[1::2] == [1, 1]


def test_a_policy_remembers_the_moves_of_both_sides():
    """It takes as many as were taken last. 7-[5]-3-[1]-0 wins; remembering its own idea of the first move, 1, loses."""

    def act(params, key, timestep, last):
        action = jnp.minimum(last, timestep.observation.view[:, 0].astype(jnp.int32) - 1).clip(0)
        return action, {}, action

    copies = Policy(lambda slots: jnp.zeros(slots.size, jnp.int32), act, executed=lambda state, action: action)
    sides = (policy_side(jit_policy(copies), {}, Stopwatch()), player_side(Take(2), never, Stopwatch()))
    assert list(play_match(Nim(7), 4, sides, seed=0, stopping=never).outcome)[1::2] == [1, 1]


def test_a_game_that_is_not_over_in_time_is_a_draw():
    assert list(match(Nim(5), 2, Take(1), max_steps=3)) == [1, 0, 1, 0]
    assert list(played(Nim(5), 2, Take(1), max_steps=3).cut) == [False, True, False, True]


def test_games_that_end_within_the_opening_are_told():
    games = played(Nim(5), 2, Take(1), games=32, opening=2)  # 5-0 isn't possible, 5-2-0 and 5-3-0 are.
    assert list(games.random[0::2]) == list(games.random[1::2]) and 0 < games.random.sum() < 32
    assert played(Nim(5), 2, Take(1), opening=5).random.all() and not games.cut.any()


@dataclasses.dataclass
class Watch(Take):
    """Remembers the heaps [B] that it has seen."""

    heaps: list[np.ndarray] = dataclasses.field(default_factory=list)

    def __call__(self, env, timestep, rng):
        self.heaps.append(env.heap.copy())
        return super().__call__(env, timestep, rng)


def test_openings_differ_between_pairs_and_seeds_but_not_within_one():
    starts = []
    for seed in (0, 1):
        player = Watch(1)
        match(Nim(40), 1, player, games=16, opening=2, max_steps=3, seed=seed)
        starts.append(after := player.heaps[0])  # The first it is asked for.
        assert list(after[0::2]) == list(after[1::2]) and len(set(after)) > 1 and after.min() >= 34
    assert list(starts[0]) != list(starts[1])


def test_two_policies_play_each_other():
    sides = (policy_side(POLICY, params(2), Stopwatch()), policy_side(POLICY, params(1), Stopwatch()))
    assert list(play_match(Nim(5), 4, sides, seed=0, stopping=never).outcome) == [1, 1, 1, 1]
    assert list(play_match(Nim(5), 4, sides[::-1], seed=0, stopping=never).outcome) == [-1, -1, -1, -1]


def test_a_match_stops_while_a_slow_player_thinks():
    player = Take(1)
    with pytest.raises(Stopped):
        match(Nim(5), 1, player, games=100, stopping=lambda: player.asked == 3)
    assert player.asked == 3


def test_shares_and_points():
    outcome = np.array([1, 1, 0, -1, -1, -1, 1, -1.0])
    wanted = {"win": 3 / 8, "draw": 1 / 8, "loss": 4 / 8, "loss_first": 1 / 4, "loss_second": 3 / 4}
    assert shares(outcome, "uct") == {f"arena/uct/{name}": share for name, share in wanted.items()}
    assert result(outcome) == (3.5, 8)
