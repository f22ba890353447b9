import numpy as np
import pytest

from boonta.envs import base, catch


def columns(board: np.ndarray, row: int) -> np.ndarray:
    """Which column holds the 1 in a row of each board [B, rows, columns]."""
    return board[:, row].argmax(axis=-1)


def play(env: base.BatchedEnv, episodes: int, steps: int, choose) -> list[base.Episode]:
    timestep = env.reset()
    for _ in range(episodes * (steps + 1)):
        timestep = env.step(choose(timestep))
    return env.episodes()


def towards_the_ball(timestep: base.TimeStep) -> np.ndarray:
    ball = timestep.observation[:, :-1].max(axis=1).argmax(axis=1)
    return 1 + np.sign(ball - columns(timestep.observation, -1))


@pytest.mark.parametrize(("rows", "width"), [(10, 5), (3, 5), (4, 6), (2, 3)])
def test_the_best_policy_always_wins(rows, width):
    episodes = play(catch.Catch(rows, width)(num_envs=8, seed=1), 20, rows - 1, towards_the_ball)
    assert len(episodes) == 8 * 20
    assert {(episode.episode_return, episode.env_steps) for episode in episodes} == {(1.0, rows - 1)}


def test_standing_still_wins_one_time_in_five():
    episodes = play(catch.Catch()(num_envs=64, seed=0), 50, 9, lambda timestep: np.ones(64, int))
    assert np.mean([episode.episode_return for episode in episodes]) == pytest.approx(1 / 5 - 4 / 5, abs=0.06)


def test_an_episode_step_by_step():
    env = catch.Catch(rows=4, columns=3)(num_envs=2, seed=0)
    first = env.reset()
    ball = columns(first.observation, 0)
    np.testing.assert_array_equal(first.observation.sum(axis=(1, 2)), [2, 2])
    np.testing.assert_array_equal(columns(first.observation, 3), [1, 1])

    second = env.step(np.array([0, 2]))
    np.testing.assert_array_equal(second.step_type, [base.MID, base.MID])
    np.testing.assert_array_equal(columns(second.observation, 1), ball)
    np.testing.assert_array_equal(columns(second.observation, 3), [0, 2])

    third = env.step(np.array([0, 2]))  # Both move into a wall.
    np.testing.assert_array_equal(columns(third.observation, 3), [0, 2])

    last = env.step(np.array([1, 1]))
    np.testing.assert_array_equal(last.step_type, [base.LAST, base.LAST])
    np.testing.assert_array_equal(last.discount, [0, 0])
    np.testing.assert_array_equal(last.reward, np.where(ball == [0, 2], 1, -1))


def test_slots_differ_and_seeds_differ():
    boards = {seed: catch.Catch()(num_envs=32, seed=seed).reset().observation for seed in (0, 1)}
    assert len(np.unique(columns(boards[0], 0))) == 5
    assert not np.array_equal(boards[0], boards[1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": 1}, "rows is 1; it must be from 2 to 1024"),
        ({"rows": 10**9}, "rows is 1000000000; it must be from 2 to 1024"),
        ({"columns": 0}, "columns is 0; it must be from 2 to 1024"),
        ({"rows": 3, "columns": 7}, "could not reach the outermost column in time; rows must be at least 4"),
    ],
)
def test_refuses_boards_that_cannot_be_played(settings, message):
    with pytest.raises(ValueError, match=message):
        catch.Catch(**settings)
