"""Actions are refused, clipped and drawn by their spec."""

from __future__ import annotations

import numpy as np
import pytest
from dm_env import specs

from boonta.envs.actions import check_action, other_actions, random_actions

FIVE = specs.DiscreteArray(5)
CHOICES = specs.BoundedArray((2,), np.int32, [0, -1], [1, 2])
TORQUE = specs.BoundedArray((2,), np.float32, [-1, -2], [1, np.inf])


@pytest.mark.parametrize(
    ("spec", "action", "message"),
    [
        (FIVE, [0, 1, 2], r"shape \(3,\); it must be \(2,\)"),
        (FIVE, [[0, 1]], r"shape \(1, 2\); it must be \(2,\)"),
        (FIVE, [0.0, 1.0], "dtype float64; a discrete action must be an integer"),
        (FIVE, [0, 5], "action of slot 1 is 5; allowed: 0 to 4"),
        (FIVE, [-1, 0], "action of slot 0 is -1; allowed: 0 to 4"),
        (CHOICES, [[0, 0], [1, 3]], r"action of slot 1 is \[1 3\]; allowed: \[ 0 -1\] to \[1 2\]"),
        (CHOICES, [[0, 0.5], [1, 1]], "dtype float64; a discrete action"),
        (TORQUE, [[0.0, 0.0], [np.nan, 0.0]], r"action of slot 1 is \[nan  0\.\]; allowed: "),
    ],
)
def test_an_invalid_action_is_refused(spec, action, message):
    with pytest.raises(ValueError, match=message):
        check_action(action, spec, 2)


def test_real_numbers_are_clipped_to_the_bounds_there_are():
    action = np.array([[7.0, 7.0], [-7.0, -7.0]], np.float32)
    np.testing.assert_array_equal(check_action(action, TORQUE, 2), [[1, 7], [-1, -2]])
    unbounded = specs.Array((2,), np.float32)
    assert check_action(action, unbounded, 2) is action


@pytest.mark.parametrize("spec", [FIVE, CHOICES, TORQUE], ids=str)
def test_random_actions_are_within_the_spec_and_others_differ(spec):
    actions = random_actions(spec, (500, 3), np.random.default_rng(0))
    assert actions.shape == (500, 3, *spec.shape) and actions.dtype == spec.dtype
    np.testing.assert_array_equal(check_action(actions.reshape(1500, *spec.shape), spec, 1500).shape[0], 1500)
    others = other_actions(spec, actions)
    assert (others >= spec.minimum).all() and (others <= spec.maximum).all() and (others != actions).all()
    if np.issubdtype(spec.dtype, np.integer):
        np.testing.assert_array_equal(actions.reshape(-1, *spec.shape).min(0), spec.minimum)
        np.testing.assert_array_equal(actions.reshape(-1, *spec.shape).max(0), spec.maximum)
