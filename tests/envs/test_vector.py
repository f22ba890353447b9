"""Vector environments of Gymnasium's API."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from boonta.envs import base, conformance
from boonta.envs.gymnasium import Gymnasium


class Counters(VectorEnv):
    """Slot i counts to i + 2; it ends there, by termination in even slots and by truncation in odd ones.

    All steps return the same arrays. Observations are nested, and begin at 5 where they are choices.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_fps": 12}
    single_observation_space = spaces.Dict(
        count=spaces.Discrete(9, start=5), pair=spaces.MultiDiscrete([9, 2], start=[5, 0]), real=spaces.Box(0, 9, (2,))
    )
    single_action_space = spaces.Discrete(2, start=3)

    def __init__(self, num_envs, mode=AutoresetMode.NEXT_STEP, **spaces_):
        vars(self).update(spaces_)
        self.num_envs, self.metadata = num_envs, self.metadata | {"autoreset_mode": mode}
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.count, self.done = np.zeros(num_envs, np.int64), np.zeros(num_envs, bool)
        self.shown = {
            name: np.zeros((num_envs, *shape)) for name, shape in {"count": (), "pair": (2,), "real": (2,)}.items()
        }

    def _show(self):
        for name in ("count", "real"):
            self.shown[name].T[:] = self.count + (5 if name == "count" else 0)
        self.shown["pair"][:, 0], self.shown["pair"][:, 1] = self.count + 5, 1
        return self.shown

    def reset(self, *, seed=None, options=None):
        assert seed is None or isinstance(seed, int)
        self.count[:], self.done[:] = 0, False
        return self._show(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        first = self.done
        self.count = np.where(first, 0, self.count + 1)
        self.done = (self.count == np.arange(self.num_envs) + 2) & ~first
        even = np.arange(self.num_envs) % 2 == 0
        return self._show(), np.where(first, 50.0, 1.0), self.done & even, self.done & ~even, {}


def test_a_users_own_keeps_ends_and_shows_what_our_spec_says():
    env = Gymnasium(Counters, vectorised=True)
    assert env.spec.actions.num_values == 2 and env.spec.observations["pair"][0].num_values == 9
    batch = env(num_envs=2, seed=0)
    assert batch.steps_per_s == 12
    steps = [batch.reset()] + [batch.step(np.array([0, 1])) for _ in range(4)]
    assert [step.step_type.tolist() for step in steps] == [[0, 0], [1, 1], [2, 1], [0, 2], [1, 0]]
    assert [step.discount.tolist() for step in steps] == [[1, 1], [1, 1], [0, 1], [1, 1], [1, 1]]
    assert [step.reward.tolist() for step in steps] == [[0, 0], [1, 1], [1, 1], [0, 1], [1, 0]]
    assert [step.observation["count"].tolist() for step in steps] == [[0, 0], [1, 1], [2, 2], [0, 3], [1, 0]]
    assert [each.tolist() for each in steps[2].observation["pair"]] == [[2, 2], [1, 1]]
    assert steps[2].observation["real"].tolist() == [[2, 2], [2, 2]]
    assert batch.episodes() == [base.Episode(0, 2.0, 2), base.Episode(1, 3.0, 3)]
    conformance.check(env, steps=40)


class CutToo(Counters):
    """What terminates is at its time limit, too."""

    def step(self, action):
        shown, reward, terminated, truncated, info = super().step(action)
        return shown, reward, terminated, terminated | truncated, info


def test_termination_goes_before_truncation():
    batch = Gymnasium(CutToo, vectorised=True)(num_envs=2, seed=0)
    batch.reset()
    steps = [batch.step(np.array([0, 1])) for _ in range(3)]
    assert [step.step_type.tolist() for step in steps] == [[1, 1], [2, 1], [0, 2]]
    assert [step.discount.tolist() for step in steps] == [[1, 1], [0, 1], [1, 1]]


class Careless(Counters):
    """All steps are one array in the dtype of the space; the step that resets a slot says again that it has ended."""

    single_observation_space = spaces.Box(0, 9, (1,), np.float32)

    def __init__(self, num_envs):
        super().__init__(num_envs)
        self.shown = np.zeros((num_envs, 1), np.float32)

    def _show(self):
        self.shown[:, 0] = self.count
        return self.shown

    def step(self, action):
        again, even = self.done, np.arange(self.num_envs) % 2 == 0
        shown, reward, terminated, truncated, info = super().step(action)
        return shown, reward, terminated | (again & even), truncated | (again & ~even), info


def test_a_careless_one_is_taken_all_the_same():
    batch = Gymnasium(Careless, vectorised=True)(num_envs=2, seed=0)
    steps = [batch.reset()] + [batch.step(np.array([0, 1])) for _ in range(4)]
    assert [step.step_type.tolist() for step in steps] == [[0, 0], [1, 1], [2, 1], [0, 2], [1, 0]]
    assert [step.discount.tolist() for step in steps] == [[1, 1], [1, 1], [0, 1], [1, 1], [1, 1]]
    assert [step.observation[:, 0].tolist() for step in steps] == [[0, 0], [1, 1], [2, 2], [0, 3], [1, 0]]


class Halves(Careless):
    single_observation_space = spaces.Box(0, 9, (1,), np.int32)

    def _show(self):
        return super()._show() + self.count.max() / 2


def test_fractions_where_its_space_has_integers_are_refused():
    batch = Gymnasium(Halves, vectorised=True)(num_envs=2, seed=0)
    assert batch.reset().observation.dtype == np.int32
    with pytest.raises(ValueError, match="observation has 1.5, which int32 doesn't hold"):
        batch.step(np.array([0, 1]))


@pytest.mark.parametrize(
    ("env", "apart"),
    [
        (Gymnasium("Pendulum-v1", {"vectorization_mode": "sync", "max_episode_steps": 12}, vectorised=True), True),
        (Gymnasium("CartPole-v1", vectorised=True), False),
    ],
    ids=str,
)
def test_gymnasiums_own_conform(env, apart):
    conformance.check(env, steps=60, apart=apart)


def test_slots_that_share_a_generator_are_not_apart():
    with pytest.raises(conformance.ConformanceError, match="no slot depends on the actions of another"):
        conformance.check(Gymnasium("CartPole-v1", vectorised=True), steps=60)


@pytest.mark.parametrize("mode", ["sync", "vector_entry_point"])
def test_a_second_reset_goes_on_with_the_seed(mode):
    batch = Gymnasium("CartPole-v1", {"vectorization_mode": mode}, vectorised=True)(num_envs=2, seed=0)
    assert not np.array_equal(batch.reset().observation, batch.reset().observation)


def test_pictures_are_the_environments_own():
    batch = Gymnasium("CartPole-v1", {"vectorization_mode": "sync"}, vectorised=True)(num_envs=2, seed=0)
    batch.reset()
    assert batch.render().shape == (2, 400, 600, 3) and batch.render().dtype == np.uint8


@pytest.mark.parametrize(
    ("env", "kwargs", "message"),
    [
        (Counters, {"mode": AutoresetMode.SAME_STEP}, "its autoreset_mode is AutoresetMode.SAME_STEP; allowed: Auto"),
        (Counters, {"mode": AutoresetMode.DISABLED}, "its autoreset_mode is AutoresetMode.DISABLED"),
        (Counters, {"single_action_space": spaces.Text(3)}, "action_space is Text"),
        ("CartPool-v1", {}, "did you mean 'CartPole-v1'"),
    ],
)
def test_refuses(env, kwargs, message):
    with pytest.raises(ValueError, match=message):
        Gymnasium(env, kwargs, vectorised=True)(num_envs=2, seed=0)


@pytest.mark.parametrize("settings", [{"workers": -1}, {"workers": 1, "vectorised": True}])
def test_refuses_settings(settings):
    with pytest.raises(ValueError, match=f"workers is {settings['workers']}; it must be"):
        Gymnasium("CartPole-v1", **settings)


def test_one_action_of_each_kind_arrives_as_the_space_has_it():
    seen = []

    class Takes(gymnasium.Env):
        observation_space = spaces.Box(0, 1, (1,))
        action_space = spaces.MultiDiscrete([3, 4], start=[10, 20])

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            seen.append((action.tolist(), action.dtype))
            return np.zeros(1, np.float32), 0.0, False, False, {}

    batch = Gymnasium(Takes)(num_envs=1, seed=0)
    batch.reset()
    batch.step(np.array([[2, 3]]))
    assert seen == [([12, 23], np.int64)]
