import pickle

import dm_env
import numpy as np
import pytest
from dm_env import specs

from boonta.envs import base, conformance
from boonta.envs.dm_env import DmEnv


class Corridor(dm_env.Environment):
    """Walks -1 or +1 from where it starts; termination at -2, truncation at +3."""

    actions = specs.DiscreteArray(2, np.int64)

    def __init__(self, seed, reward=1.0):
        self.rng, self.reward, self.where = np.random.default_rng(seed), reward, 0

    def observation_spec(self):
        return {"where": specs.BoundedArray((1,), np.float64, -2, 3, "where"), "seen": specs.Array((), np.int64)}

    def action_spec(self):
        return self.actions

    def reset(self):
        self.where = int(self.rng.integers(-1, 3))
        return dm_env.restart(self._observe())

    def step(self, action):
        assert isinstance(action, np.int64)
        self.where += 2 * int(action) - 1
        if self.where == -2:
            return dm_env.termination(self.reward, self._observe())
        end = dm_env.truncation if self.where == 3 else dm_env.transition
        return end(self.reward, self._observe())

    def _observe(self):
        return {"where": np.array([self.where], np.float64), "seen": np.int64(1)}


class Torque(Corridor):
    actions = specs.BoundedArray((2,), np.float64, -1.0, np.inf)

    def step(self, action):
        assert action.dtype == np.float64 and action.shape == (2,)
        return dm_env.termination(0.0, self._observe())


class Narrow(Corridor):
    actions = specs.BoundedArray((1,), np.float64, -0.1, 0.1)

    def step(self, action):
        self.actions.validate(action)
        return dm_env.termination(0.0, self._observe())


class Steps(Corridor):
    actions = specs.Array((2,), np.int32)


class Counts(Corridor):
    def observation_spec(self):
        return specs.BoundedArray((), np.uint64, 0, 2**40, "microseconds")


class Paid(Corridor):
    def reward_spec(self):
        return specs.Array((2,), np.float32)


class Seedless(Corridor):
    def __init__(self):
        super().__init__(0)


@pytest.mark.parametrize(
    ("make", "kwargs", "message"),
    [
        (Seedless, {}, "Seedless'> is called with seed=… and kwargs {}: .*'seed'; a function around it may leave out"),
        (Corridor, {"rewards": 1.0}, "kwargs {'rewards': 1.0}: .*'rewards'"),
        (Seedless(), {}, "make is a Seedless; it must be a class or function that makes one"),
    ],
)
def test_what_can_not_make_an_environment_is_refused_at_once(make, kwargs, message):
    with pytest.raises(ValueError, match=message):
        DmEnv(make, kwargs)


@pytest.mark.parametrize("env", [DmEnv(Corridor, {"reward": 2.0}), DmEnv(Torque)], ids=str)
def test_conforms(env):
    conformance.check(env)


def test_wide_numbers_are_narrowed():
    spec = DmEnv(Corridor).spec
    assert spec.observations["where"] == specs.BoundedArray((1,), np.float32, -2, 3, "where")
    assert spec.observations["seen"] == specs.Array((), np.int32)
    assert spec.actions == specs.DiscreteArray(2, np.int32)
    assert DmEnv(Torque).spec.actions == specs.BoundedArray((2,), np.float32, -1.0, np.inf)


def test_an_action_is_within_the_environments_own_bounds():
    """As float32, 0.1 is a little more."""
    env = DmEnv(Narrow)(num_envs=1, seed=0)
    env.reset()
    env.step(np.full((1, 1), 5.0, np.float32))


def test_ends_are_the_environments():
    env = DmEnv(Corridor)(num_envs=8, seed=0)
    start = env.reset().observation["where"][:, 0]
    assert len(set(start.tolist())) > 1  # Each slot has a seed of its own.
    left, right = start == -1, start == 2
    step = env.step(np.where(right, 1, 0).astype(np.int32))
    np.testing.assert_array_equal(step.step_type == base.LAST, left | right)
    np.testing.assert_array_equal(step.discount == 0, left)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Steps, "action_spec is Array.*; allowed: DiscreteArray, BoundedArray"),
        (Counts, "microseconds.* has a bound beyond uint32, as which agents take it: 0 to 4294967295"),
        (Paid, "reward_spec is .*; allowed: a scalar"),
    ],
)
def test_refuses_what_agents_cannot_take(make, message):
    with pytest.raises(ValueError, match=message):
        _ = DmEnv(make).spec


def test_pickles():
    env = DmEnv(Corridor, {"reward": 2.0})
    assert pickle.loads(pickle.dumps(env)) == env


def test_acme_reads_the_same_spec():
    acme = pytest.importorskip("acme.specs")
    theirs, ours = acme.make_environment_spec(Corridor(0)), DmEnv(Corridor).spec
    assert [leaf.shape for leaf in theirs.observations.values()] == [leaf.shape for leaf in ours.observations.values()]
    assert theirs.actions.num_values == ours.actions.num_values
    assert (theirs.rewards.shape, theirs.discounts.shape) == (ours.rewards.shape, ours.discounts.shape)
