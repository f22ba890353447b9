import numpy as np
import pytest

from boonta.envs import base, conformance
from boonta.envs.jax.pgx import Pgx
from boonta.envs.jax.purity import check_pure

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


@pytest.mark.parametrize("game", ["tic_tac_toe", "connect_four", "othello"])
def test_keeps_the_contract(game):
    env = Pgx(game)
    check_pure(env)
    conformance.check(env, num_envs=4, steps=150 if game == "othello" else 60)


def test_a_game_of_tic_tac_toe():
    """The first player takes the upper row; the rewards are the mover's, and of both games the same."""
    batch = Pgx("tic_tac_toe")(num_envs=4, seed=0)
    timestep = batch.reset()
    assert (timestep.observation.view == 0).all() and timestep.observation.legal.all()
    for turn, action in enumerate([0, 3, 1, 4, 2]):
        np.testing.assert_array_equal(timestep.observation.player, turn % 2)
        np.testing.assert_array_equal(timestep.observation.view[..., -1], turn % 2)
        timestep = batch.step(np.full(4, action))
    np.testing.assert_array_equal(timestep.step_type, base.LAST)
    np.testing.assert_array_equal(timestep.reward, 1)
    np.testing.assert_array_equal(timestep.discount, 0)
    theirs = timestep.observation.view[0, ..., 1]  # The loser looks on: the other's pieces are in the second plane.
    np.testing.assert_array_equal(theirs, [[1, 1, 1], [0, 0, 0], [0, 0, 0]])
    assert {episode.episode_return for episode in batch.episodes()} == {1.0}


def test_the_second_player_wins():
    batch = Pgx("tic_tac_toe")(num_envs=4, seed=0)
    batch.reset()
    for action in [8, 0, 3, 1, 4, 2]:
        timestep = batch.step(np.full(4, action))
    np.testing.assert_array_equal(timestep.reward, 1)
    assert {episode.episode_return for episode in batch.episodes()} == {-1.0}


def test_an_illegal_action_is_refused_on_the_host():
    batch = Pgx("connect_four")(num_envs=2, seed=0)
    batch.reset()
    for _ in range(6):
        batch.step(np.array([3, 2]))
    with pytest.raises(ValueError, match=r"action of slot 1 is 2, which is illegal there; legal: \[0, 1, 3, 4, 5, 6\]"):
        batch.step(np.array([0, 2]))


def test_draws_the_board_as_the_first_player_sees_it():
    batch = Pgx("connect_four")(num_envs=2, seed=0)
    batch.reset()
    assert not batch.render().any()
    batch.step(np.array([3, 3]))
    one = batch.render()
    assert one.shape == (2, 72, 84, 3) and one[:, 62:72, 38:48].any()  # The lowest row, the middle column.
    batch.step(np.array([0, 0]))
    np.testing.assert_array_equal(
        batch.render()[:, 62:72, 38:48], one[:, 62:72, 38:48]
    )  # It is the same for both players.


@pytest.mark.parametrize(
    ("game", "message"),
    [
        ("conect_four", "game is 'conect_four', which is no board game of pgx; did you mean 'connect_four'"),
        ("backgammon", "game is 'backgammon', which is no board game of pgx; allowed: animal_shogi, chess"),
    ],
)
def test_refuses_other_games(game, message):
    with pytest.raises(ValueError, match=message):
        Pgx(game)
