import pickle

import numpy as np
import pytest

from boonta.envs import base, catch, conformance
from boonta.envs.followed import Followed
from boonta.envs.jax.pgx import Pgx
from boonta.envs.open_spiel import OpenSpiel
from boonta.envs.players import PerfectPlayer, RandomPlayer, UctPlayer

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


def match(game: base.Env, players: list[base.Player], games: int, seed: int = 0) -> np.ndarray:
    """Outcomes for the first player of so many games, played side by side; the first player moves first."""
    env = game(games, seed)
    timestep, rng = env.reset(), np.random.default_rng(seed)
    outcomes = np.full(games, np.nan)
    while np.isnan(outcomes).any():
        choices = [player(env, timestep, rng) for player in players]
        assert all(choice.dtype == np.int32 and choice.shape == (games,) for choice in choices)
        timestep = env.step(np.where(timestep.observation.player == 0, *choices))
        for episode in env.episodes():
            if np.isnan(outcomes[episode.slot]):
                outcomes[episode.slot] = episode.episode_return
    return outcomes


TIC_TAC_TOE = OpenSpiel("tic_tac_toe")


def test_the_perfect_player_never_loses():
    first = match(TIC_TAC_TOE, [PerfectPlayer(), RandomPlayer()], 50)
    second = match(TIC_TAC_TOE, [RandomPlayer(), PerfectPlayer()], 50)
    assert first.min() >= 0 and first.mean() > 0.9
    assert second.max() <= 0 and second.mean() < -0.6


def test_the_perfect_player_always_draws_itself():
    np.testing.assert_array_equal(match(TIC_TAC_TOE, [PerfectPlayer(), PerfectPlayer()], 50), np.zeros(50))


def test_the_perfect_player_takes_any_of_the_best():
    env = TIC_TAC_TOE(200, seed=0)
    moves = PerfectPlayer()(env, env.reset(), np.random.default_rng(0))
    assert set(moves.tolist()) == set(range(9))  # They all draw.
    timestep = env.step(np.zeros(200, np.int32))
    assert set(PerfectPlayer()(env, timestep, np.random.default_rng(0)).tolist()) == {4}  # All others lose.


def test_uct_beats_random():
    game = OpenSpiel("connect_four")
    assert match(game, [UctPlayer(rollouts=100), RandomPlayer()], 10).mean() > 0.7
    assert match(game, [RandomPlayer(), UctPlayer(rollouts=100)], 10).mean() < -0.7


def test_players_pass_where_they_must():
    game = OpenSpiel("dots_and_boxes", passes=True)
    assert match(game, [UctPlayer(rollouts=200), RandomPlayer()], 10).mean() > 0.5


def test_uct_plays_games_of_chance():
    assert match(OpenSpiel("pig(horizon=60,winscore=15)", passes=True), [UctPlayer(200), RandomPlayer()], 20).mean() > 0


def test_random_takes_every_legal_action_alike():
    env = OpenSpiel("connect_four")(3000, seed=0)
    timestep = env.reset()
    for _ in range(6):
        timestep = env.step(np.full(3000, 3))
    counts = np.bincount(RandomPlayer()(env, timestep, np.random.default_rng(0)), minlength=7)
    assert counts[3] == 0 and (np.abs(np.delete(counts, 3) - 500) < 100).all()


@pytest.mark.parametrize("player", [RandomPlayer(), UctPlayer(20), PerfectPlayer()], ids=str)
def test_plays_the_same_by_the_same_generator(player):
    env = TIC_TAC_TOE(8, seed=0)
    timestep = env.reset()
    one, two, other = (player(env, timestep, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)
    assert pickle.loads(pickle.dumps(player)) == player


def test_refuses_what_it_cannot_play():
    env = catch.Catch()(1, seed=0)
    for player in (UctPlayer(10), PerfectPlayer()):
        with pytest.raises(ValueError, match="env is a _CatchBatch; this player only plays games of .*envs.open_spiel"):
            player(env, env.reset(), np.random.default_rng(0))
    for game, message in (
        (OpenSpiel("connect_four"), "connect_four.* has more than 1000 positions"),
        (OpenSpiel("2048"), "PerfectPlayer does not play games of chance such as 2048"),
    ):
        env = game(1, seed=0)
        with pytest.raises(ValueError, match=message):
            PerfectPlayer(max_positions=1000)(env, env.reset(), np.random.default_rng(0))
    with pytest.raises(ValueError, match="rollouts is 0; it must be at least 1"):
        UctPlayer(0)


@pytest.mark.parametrize("game", ["tic_tac_toe", "connect_four", "othello"])
def test_openspiel_follows_a_game_of_pgx(game):
    env = Followed(Pgx(game), OpenSpiel(game))
    conformance.check(env, num_envs=4, steps=150 if game == "othello" else 60)


def test_players_look_into_the_game_that_follows():
    followed = Followed(Pgx("tic_tac_toe"), TIC_TAC_TOE)
    np.testing.assert_array_equal(match(followed, [PerfectPlayer(), PerfectPlayer()], 10), np.zeros(10))
    assert match(followed, [UctPlayer(200), RandomPlayer()], 10).mean() > 0.5


def test_a_follower_with_other_rules_is_found_out():
    with pytest.raises(ValueError, match="by is 'connect_four', which has 7 actions and 2 players; env has 9 and 2"):
        Followed(TIC_TAC_TOE, OpenSpiel("connect_four"))
    env = Followed(TIC_TAC_TOE, OpenSpiel("hex(board_size=3)"))(1, seed=0)
    timestep, player = env.reset(), RandomPlayer()
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"hex\(board_size=3\) of OpenSpiel has other rules: in slot 0 its "):
        for _ in range(100):
            timestep = env.step(player(env, timestep, rng))
