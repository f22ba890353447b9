import numpy as np
import pytest

from boonta.envs import base


def test_slot_seeds_are_reproducible_and_apart():
    seeds = np.concatenate([base.slot_seeds(64, seed) for seed in range(16)])
    np.testing.assert_array_equal(seeds[:64], base.slot_seeds(64, 0))
    assert len(set(seeds.tolist())) == len(seeds)  # Neighbouring seeds share none.
    assert seeds.min() >= 0 and seeds.max() < 2**31


@pytest.mark.parametrize(
    ("num_envs", "seed", "message"),
    [(0, 0, "num_envs is 0; it must be at least 1"), (1, -2, "seed is -2; it must be at least 0")],
)
def test_slot_seeds_refuses(num_envs, seed, message):
    with pytest.raises(ValueError, match=message):
        base.slot_seeds(num_envs, seed)


def steps_with(observation):
    zeros = np.zeros(3, np.float32)
    return base.TimeStep(np.zeros(3, np.int32), zeros, zeros + 1, observation)


def test_nan_is_named_by_leaf_slot_and_step():
    checked = base.NanCheck()
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
    assert base.NanCheck()(steps_with(np.array([np.inf, -np.inf, -3e38], np.float32)))
