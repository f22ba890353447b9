"""MuZero's targets on hand-made trajectories: some go on, end, are cut short, cross an end; one is a game of two."""

import numpy as np
import pytest

from boonta.agents.base import Steps
from boonta.agents.muzero.policy import Extras
from boonta.agents.muzero.targets import make_targets
from boonta.agents.returns import value_targets
from boonta.envs.base import FIRST, LAST, MID

pytestmark = pytest.mark.once

A = 2  # Real actions; the dummy action is number 2.
POLICY = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4], [0.5, 0.5], [0.4, 0.6]], np.float32)
VALUE = np.array([10, 20, 30, 40, 50, 60], np.float32)


def make_steps(step_type, reward, discount, action=(0, 1, 0, 1, 0, 1)):
    """One slot of six rows."""
    column = lambda x, dtype: np.asarray(x, dtype)[:, None]  # noqa: E731
    return Steps(
        observation=np.zeros((6, 1, 1), np.float32),
        step_type=column(step_type, np.int32),
        reward=column(reward, np.float32),
        discount=column(discount, np.float32),
        action=column(action, np.int32),
        extras=Extras(POLICY[:, None], VALUE[:, None]),
        version=np.zeros((6, 1), np.int32),
    )


def returns_of(steps, discount=0.5, n=2, trace_lambda=1.0):
    return np.asarray(value_targets(steps, steps.extras.value, discount, n, trace_lambda))[:, 0]


def targets_of(steps, returns, roots, k):
    targets = make_targets(steps, returns[:, None].astype(np.float32), steps.extras.policy, roots, k)
    return [np.asarray(x)[:, :, 0] for x in targets]  # [K+1, R, ...]


ON = make_steps([FIRST, MID, MID, MID, MID, MID], [0, 1, 2, 3, 4, 5], [1] * 6)
ENDED = make_steps([MID, MID, LAST, FIRST, MID, MID], [0, 1, 2, 0, 4, 5], [1, 1, 0, 1, 1, 1])
TRUNCATED = make_steps([MID, MID, LAST, FIRST, MID, MID], [0, 1, 2, 0, 4, 5], [1] * 6)


def test_returns_of_an_episode_that_goes_on():
    # The targets are r1 + r2 / 2 + v2 / 4; the last rows bootstrap from the last value.
    np.testing.assert_allclose(returns_of(ON)[:4], [1 + 1 + 7.5, 2 + 1.5 + 10, 3 + 2 + 12.5, 4 + 2.5 + 15])


def test_lambda_returns():
    # One step: 1 + 20/2 = 11; two: 1 + 2/2 + 30/4 = 9.5; three quarters of the weight on the longer.
    assert returns_of(ON, trace_lambda=0.75)[0] == pytest.approx(0.25 * 11 + 0.75 * 9.5)
    assert returns_of(ON, trace_lambda=0.0)[0] == pytest.approx(11)


def test_returns_stop_at_a_termination():
    returns = returns_of(ENDED)
    np.testing.assert_allclose(returns[:3], [1 + 2 / 2, 2, 0])
    assert returns[3] == 4 + 5 / 2 + 60 / 4  # The next episode doesn't depend on this one.


def test_returns_bootstrap_at_a_truncation_from_where_it_was_cut():
    np.testing.assert_allclose(returns_of(TRUNCATED)[:3], [1 + 2 / 2 + 30 / 4, 2 + 30 / 2, 30])
    np.testing.assert_allclose(returns_of(TRUNCATED, n=3)[:2], [1 + 2 / 2 + 30 / 4, 2 + 30 / 2])
    np.testing.assert_allclose(returns_of(TRUNCATED, trace_lambda=0.0)[:2], [1 + 20 / 2, 2 + 30 / 2])


def test_two_players_signs():
    """Three moves, and the third wins: +1 for whoever made it, -1 for the other, who sees the end."""
    game = make_steps([FIRST, MID, MID, LAST, FIRST, MID], [0, 0, 0, 1, 0, 0], [1, 1, 1, 0, 1, 1])
    np.testing.assert_allclose(returns_of(game, discount=-1.0, n=5)[:4], [1, -1, 1, 0])
    # One reward short of the end the opponent's value counts against the player to move.
    np.testing.assert_allclose(returns_of(game, discount=-1.0, n=1)[:4], [-20, -30, 1, 0])


def test_windows_of_an_episode_that_goes_on():
    action, reward, value, policy, mask, real = targets_of(ON, VALUE, roots=2, k=2)
    np.testing.assert_array_equal(action, [[0, 1], [1, 0]])
    np.testing.assert_array_equal(reward, [[1, 2], [2, 3]])
    np.testing.assert_array_equal(value, [[10, 20], [20, 30], [30, 40]])
    np.testing.assert_allclose(policy[:, 0], np.pad(POLICY[:3], ((0, 0), (0, 1))))
    assert mask.all() and real.all()


def test_windows_go_on_in_absorbing_states_after_a_termination():
    action, reward, value, policy, mask, real = targets_of(ENDED, returns_of(ENDED), roots=3, k=3)
    dummy = [0, 0, 1]
    # From row 0: two real actions, then the dummy one; LAST itself was observed, what follows was not.
    np.testing.assert_array_equal(action[:, 0], [0, 1, 2])
    np.testing.assert_array_equal(reward[:, 0], [1, 2, 0])
    np.testing.assert_array_equal(value[:, 0], [2, 2, 0, 0])
    np.testing.assert_allclose(policy[:, 0], [[0.9, 0.1, 0], [0.8, 0.2, 0], dummy, dummy])
    np.testing.assert_array_equal(real[:, 0], [1, 1, 1, 0])
    # From LAST: nothing of the next episode, whose first reward is in the rows.
    np.testing.assert_array_equal(action[:, 2], [2, 2, 2])
    np.testing.assert_array_equal(reward[:, 2], [0, 0, 0])
    np.testing.assert_array_equal(value[:, 2], [0, 0, 0, 0])
    np.testing.assert_allclose(policy[:, 2], [dummy] * 4)
    assert mask.all()
    # From FIRST: as if there had been nothing before.
    action, reward, *_, real = targets_of(ENDED, returns_of(ENDED), roots=4, k=2)
    np.testing.assert_array_equal(action[:, 3], [1, 0])
    np.testing.assert_array_equal(reward[:, 3], [4, 5])
    assert real[:, 3].all()


def test_windows_learn_nothing_beyond_a_truncation():
    action, reward, value, policy, mask, real = targets_of(TRUNCATED, returns_of(TRUNCATED), roots=3, k=3)
    np.testing.assert_array_equal(mask[:, 0], [1, 1, 1, 0])
    np.testing.assert_array_equal(mask[:, 1], [1, 1, 0, 0])
    np.testing.assert_array_equal(mask[:, 2], [1, 0, 0, 0])
    np.testing.assert_array_equal(real, mask)
    np.testing.assert_array_equal(value[:3, 0], [9.5, 17, 30])
    np.testing.assert_allclose(policy[2, 0], [0.7, 0.3, 0])  # A truncation doesn't change the search's policy.
    np.testing.assert_array_equal(reward[:2, 0], [1, 2])


def test_a_window_across_two_ends_follows_the_first():
    """One-step episodes: what comes after the first end, a truncation included, is absorbed."""
    steps = make_steps([MID, LAST, FIRST, LAST, FIRST, MID], [0, 1, 0, 7, 0, 9], [1, 0, 1, 1, 1, 1])
    action, reward, value, _, mask, real = targets_of(steps, returns_of(steps), roots=1, k=5)
    np.testing.assert_array_equal(action[:, 0], [0, 2, 2, 2, 2])
    np.testing.assert_array_equal(reward[:, 0], [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(value[:, 0], [1, 0, 0, 0, 0, 0])
    assert mask.all()
    np.testing.assert_array_equal(real[:, 0], [1, 1, 0, 0, 0, 0])
