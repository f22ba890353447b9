"""What an environment returns is checked against its spec, step by step."""

from __future__ import annotations

import numpy as np
import pytest
from dm_env import specs

from boonta.envs import base
from boonta.envs.step_check import StepCheck

NUMBER = specs.Array((), np.float32)
NESTED = {"image": specs.Array((2, 2), np.uint8), "joints": specs.Array((2, 2), np.float32)}


def check_of(observations):
    return StepCheck(base.EnvSpec(observations, specs.DiscreteArray(2)), 3)


def steps_with(observation):
    zeros = np.zeros(3, np.float32)
    return base.TimeStep(np.zeros(3, np.int32), zeros, zeros + 1, observation)


def test_nan_is_named_by_leaf_slot_and_step():
    checked = check_of(NESTED)
    good = steps_with({"image": np.full((3, 2, 2), 255, np.uint8), "joints": np.full((3, 2, 2), np.inf, np.float32)})
    assert checked(good) is good
    bad = steps_with({"image": good.observation["image"], "joints": np.zeros((3, 2, 2), np.float32)})
    bad.observation["joints"][1, 0, 1] = np.nan
    with pytest.raises(
        FloatingPointError, match=r"observation\.joints\[0, 1\] is nan in slot 1 at step 1 of its stream"
    ):
        checked(bad)
    reward = good._replace(reward=np.array([0, 0, np.nan], np.float32))
    with pytest.raises(FloatingPointError, match="the environment's reward is nan in slot 2 at step 2"):
        checked(reward)


def test_infinite_numbers_of_either_sign_are_not_nan():
    assert check_of(NUMBER)(steps_with(np.array([np.inf, -np.inf, -3e38], np.float32)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observation": np.zeros((3, 5), np.float32)}, r"observation has the shape \[3, 5\]; .* it is \[3, 4\]"),
        ({"observation": np.zeros((4,), np.float32)}, r"observation has the shape \[4\]; .* it is \[3, 4\]"),
        ({"reward": np.zeros((3, 1), np.float32)}, r"reward has the shape \[3, 1\]; .* it is \[3\]"),
        ({"observation": np.zeros((3, 4), np.int32)}, "observation is int32; by its spec it is float32"),
        ({"reward": np.zeros(3)}, "reward is float64; by its spec it is float32"),
        (
            {"observation": {"a": np.zeros((3, 4)), "b": np.zeros(3)}},
            "time step has other .*: it lacks observation; it has besides observation.a, observation.b",
        ),
    ],
)
def test_other_shapes_and_dtypes_than_the_specs_are_named(change, message):
    step = steps_with(np.zeros((3, 4), np.float32))
    checked = check_of(specs.Array((4,), np.float32))
    assert checked(step) is step
    with pytest.raises(ValueError, match=f"the environment's {message}"):
        checked(step._replace(**change))


@pytest.mark.parametrize("wrong", [-1, 5])
def test_a_choice_beyond_the_specs_is_named(wrong):
    checked = check_of(specs.DiscreteArray(5))
    checked(steps_with(np.array([0, 4, 2], np.int32)))
    message = f"observation is {wrong} in slot 2 at step 1; its spec has the choices from 0 to 4"
    with pytest.raises(ValueError, match=message):
        checked(steps_with(np.array([0, 4, wrong], np.int32)))
