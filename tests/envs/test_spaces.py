"""Numbers of Gymnasium's spaces that have 64 bits: as agents take them, and as the environment gets them back."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from dm_env import specs
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from boonta.envs import conformance
from boonta.envs.gymnasium import Gymnasium
from boonta.envs.spaces import to_spec

MOST = np.iinfo(np.int64).max


class Place(gymnasium.Env):
    """Goes over a line whose places are numbers of 64 bits, as those of Gymnasium's tutorial are."""

    observation_space = spaces.Dict(place=spaces.Box(0, 4, (1,), int), count=spaces.Box(-np.inf, np.inf, (), np.int64))
    action_space = spaces.Box(-0.1, 0.1, (1,), np.float64)
    first = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = self.first
        return self._seen(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.count += 1
        return self._seen(), float(action[0]), self.count == self.first + 4, False, {}

    def _seen(self):
        return {"place": np.array([self.count - self.first]), "count": np.array(self.count)}


class Far(Place):
    first = 2**31 - 2


class FarVector(gymnasium.vector.VectorEnv):
    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
    single_observation_space = spaces.Box(0, MOST, (1,), np.int64)
    single_action_space = spaces.Box(-0.1, 0.1, (1,), np.float64)

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.count = 2**31 - 2

    def reset(self, *, seed=None, options=None):
        return np.full((self.num_envs, 1), self.count), {}

    def step(self, action):
        assert all(map(self.single_action_space.contains, action))
        self.count += 1
        no = np.zeros(self.num_envs, bool)
        return np.full((self.num_envs, 1), self.count), np.zeros(self.num_envs), no, no, {}


def test_they_become_numbers_of_32_bits():
    spec = Gymnasium(Place).spec
    least, most = -(2**31), 2**31 - 1
    assert spec.observations["place"] == specs.BoundedArray((1,), np.int32, 0, 4, "observation.place")
    assert spec.observations["count"] == specs.BoundedArray((), np.int32, least, most, "observation.count")
    conformance.check(Gymnasium(Place), steps=20)
    unsigned = spaces.Box(0, np.iinfo(np.uint64).max, (1,), np.uint64)
    assert to_spec(unsigned, "ticks") == specs.BoundedArray((1,), np.uint32, 0, 2**32 - 1, "ticks")
    of_gym = spaces.Box(-MOST + 1, MOST - 2, (1,), np.int64)  # Its infinities are 2 within the limits.
    assert to_spec(of_gym, "free") == specs.BoundedArray((1,), np.int32, least, most, "free")
    assert to_spec(spaces.Box(0, 9, (1,), np.uint16), "few") == specs.BoundedArray((1,), np.uint16, 0, 9, "few")


@pytest.mark.parametrize(("low", "high"), [(0, 2**40), (-(2**40), 0), (2**40, MOST)])
def test_bounds_that_32_bits_do_not_hold_are_refused(low, high):
    with pytest.raises(ValueError, match="time.* bound beyond int32, .* -2147483648 to 2147483647; give its"):
        to_spec(spaces.Box(low, high, (2,), np.int64), "time")


@pytest.mark.parametrize("env", [Gymnasium(Far), Gymnasium(FarVector, vectorised=True)], ids=["slots", "vector"])
def test_a_number_that_32_bits_do_not_hold_ends_the_program(env):
    batch, action = env(num_envs=2, seed=0), np.zeros((2, 1), np.float32)
    batch.reset()
    batch.step(action)
    with pytest.raises(ValueError, match=r"observation(\.count)? has 2147483648, which int32 doesn't hold"):
        batch.step(action)


@pytest.mark.parametrize("env", [Gymnasium(Place), Gymnasium(FarVector, vectorised=True)], ids=["slots", "vector"])
def test_an_action_at_a_bound_is_within_the_spaces_own_bounds(env):
    """As float32, 0.1 is a little more."""
    batch = env(num_envs=2, seed=0)
    batch.reset()
    batch.step(np.array([[5.0], [-5.0]], np.float32))
