import subprocess
import sys

import numpy as np
import pytest

from boonta.envs import base, conformance
from boonta.envs.minatar import MinAtar

pytestmark = pytest.mark.once

GAMES = {"asterix": (4, 5), "breakout": (4, 3), "freeway": (7, 3), "seaquest": (10, 6), "space_invaders": (6, 4)}


@pytest.mark.parametrize("game", GAMES)
def test_keeps_the_contract(game):
    conformance.check(MinAtar(game, max_episode_steps=20), num_envs=2, steps=100)


def test_games_end_by_themselves():
    conformance.check(MinAtar("breakout", sticky_actions=0.5), num_envs=2)


@pytest.mark.parametrize(("game", "channels", "minimal"), [(game, *sizes) for game, sizes in GAMES.items()])
def test_specs(game, channels, minimal):
    assert MinAtar(game).spec.observations.shape == (10, 10, channels)
    assert MinAtar(game).spec.actions.num_values == 6
    assert MinAtar(game, minimal_actions=True).spec.actions.num_values == minimal


@pytest.mark.parametrize("game", GAMES)
def test_plays_as_the_package_does(game):
    """Step by step as `minatar.Environment`, with sticky actions, over several games."""
    minatar = pytest.importorskip("minatar")
    seed = int(base.slot_seeds(1, 3)[0])
    package = minatar.Environment(game)
    package.seed(seed)
    package.reset()
    env, over = MinAtar(game)(num_envs=1, seed=3), False
    np.testing.assert_array_equal(env.reset().observation[0], package.state())
    for action in np.random.default_rng(0).integers(6, size=400):
        timestep = env.step(np.array([action]))
        if over:
            package.reset()
            reward, over = 0, False
        else:
            reward, over = package.act(action)
        assert (timestep.reward[0], timestep.step_type[0] == base.LAST) == (reward, over)
        np.testing.assert_array_equal(timestep.observation[0], package.state())


def test_breakout_by_hand():
    """The ball starts in the fourth row at either side and falls inwards; the paddle starts in column 4."""
    env = MinAtar("breakout", sticky_actions=0.0, minimal_actions=True)(num_envs=8, seed=0)
    paddle, ball, _, brick = range(4)
    first = env.reset().observation
    assert (first[:, 9, 4, paddle] == 1).all() and (first[:, 1:4, :, brick] == 1).all()
    start = first[..., ball].argmax(axis=-1).max(axis=-1)
    assert set(start) == {0, 9}

    timestep = env.step(np.full(8, 2))  # Right.
    assert (timestep.observation[:, 9, 5, paddle] == 1).all()
    np.testing.assert_array_equal(timestep.observation[:, 4, :, ball].argmax(axis=-1), np.where(start == 0, 1, 8))
    for _ in range(4):
        timestep = env.step(np.full(8, 0))  # Nothing.
    np.testing.assert_array_equal(timestep.observation[:, 8, :, ball].argmax(axis=-1), np.where(start == 0, 5, 4))
    timestep = env.step(np.full(8, 0))  # The paddle waits where one of the two balls falls.
    np.testing.assert_array_equal(timestep.step_type, np.where(start == 0, base.MID, base.LAST))
    np.testing.assert_array_equal(timestep.discount, np.where(start == 0, 1, 0))
    assert {episode.slot for episode in env.episodes()} == set(np.flatnonzero(start == 9))


def test_a_long_game_is_cut_short():
    env = MinAtar("freeway", max_episode_steps=7)(num_envs=2, seed=0)
    steps = [env.reset(), *(env.step(np.zeros(2, int)) for _ in range(16))]
    episode = [base.FIRST, *[base.MID] * 6, base.LAST]
    assert [int(step.step_type[0]) for step in steps] == [*episode, *episode, base.FIRST]
    assert steps[7].discount.tolist() == [1, 1]
    assert env.episodes() == 2 * [base.Episode(0, 0.0, 7), base.Episode(1, 0.0, 7)]


def test_a_game_that_ends_at_the_limit_is_terminated():
    env = MinAtar("breakout", sticky_actions=0.0, minimal_actions=True, max_episode_steps=6)(num_envs=8, seed=0)
    start = env.reset().observation[..., 1].argmax(axis=-1).max(axis=-1)
    steps = [env.step(np.full(8, action)) for action in (2, 0, 0, 0, 0, 0)]  # As in `test_breakout_by_hand`.
    assert (steps[-1].step_type == base.LAST).all() and set(start) == {0, 9}
    np.testing.assert_array_equal(steps[-1].discount, np.where(start == 0, 1, 0))


def test_draws_each_slot():
    env = MinAtar("breakout")(num_envs=2, seed=0)
    env.reset()
    picture = env.render()
    assert picture.shape == (2, 10, 10, 3) and picture.dtype == np.uint8
    assert not picture[:, 5:9].any()  # Nothing there yet.
    assert (picture[:, 1:3] == picture[:, 1:2, :1]).all() and picture[:, 1].any()  # Bricks.
    assert picture[:, 9, 4].any() and (picture[:, 9, 4] != picture[:, 1, 0]).any()  # The paddle is no brick.


def test_spares_the_window_of_the_package():
    code = "from boonta.envs.minatar import MinAtar; MinAtar('breakout')(1, 0).reset(); import sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "boonta.envs.minatar" in loaded and not {"minatar", "seaborn", "matplotlib"} & set(loaded)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"game": "Brekout"}, "game is 'Brekout', which MinAtar does not know; did you mean 'breakout'"),
        ({"game": "pong"}, "'pong', which MinAtar does not know; allowed: asterix, breakout, freeway, seaquest, space"),
        ({"game": "breakout", "sticky_actions": 1.5}, "sticky_actions is 1.5; allowed: 0 to 1"),
        ({"game": "breakout", "max_episode_steps": 0}, "max_episode_steps is 0; it must be at least 1, or None"),
    ],
)
def test_refuses_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        MinAtar(**settings)
