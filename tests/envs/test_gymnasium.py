import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from dm_env import specs
from gymnasium import spaces

from boonta.envs import base, conformance
from boonta.envs import gymnasium as gym
from boonta.tests.helpers.deadline import DEADLINE_S


class Corridor(gymnasium.Env):
    """Walks -1 or +1 (actions 5 and 6) from 0; termination at -2, truncation at +3. All steps return one array."""

    observation_space = spaces.Dict(
        {"where": spaces.Discrete(6, start=-2), "view": spaces.Box(-3.0, 3.0, (2,), np.float64)}
    )
    action_space = spaces.Discrete(2, start=5)

    def __init__(self, reward: float = 1.0):
        self.reward, self.where, self.view = reward, 0, np.zeros(2)

    def _observation(self):
        self.view[:] = self.where
        return {"where": np.int64(self.where), "view": self.view}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.where = 0
        return self._observation(), {}

    def step(self, action):
        assert action in (5, 6) and isinstance(action, int)
        self.where += 1 if action == 6 else -1
        return self._observation(), self.reward, self.where == -2, self.where == 3, {}


class Start(Corridor):
    """Starts somewhere at random."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.where = int(self.np_random.integers(-1, 3))
        return self._observation(), {}


class Torque(gymnasium.Env):
    observation_space = spaces.Box(0, 255, (2, 2), np.uint8)
    action_space = spaces.Box(-1.0, np.inf, (3,), np.float64)

    def reset(self, *, seed=None, options=None):
        return np.zeros((2, 2), np.uint8), {}

    def step(self, action):
        assert action.dtype == np.float64 and action.shape == (3,)
        return np.ones((2, 2), np.uint8), 0.0, True, True, {}


class Nested(Torque):
    """Observations of every kind of space."""

    observation_space = spaces.Tuple(
        (
            spaces.MultiDiscrete([2, 3], start=[1, 5]),
            spaces.Dict(flags=spaces.MultiBinary(2), inner=spaces.Tuple((spaces.Discrete(4, start=-1),))),
        )
    )

    def reset(self, *, seed=None, options=None):
        return (np.array([2, 6]), {"flags": np.array([1, 0], np.int8), "inner": (-1,)}), {}

    def step(self, action):
        return self.reset()[0], 1.0, True, False, {}


class Panel(gymnasium.Env):
    """Two switches that begin at 1 and 5; all that is pressed is shown."""

    observation_space = spaces.Box(0, 9, (2,), np.int64)
    action_space = spaces.MultiDiscrete([2, 3], start=[1, 5])

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.int64), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return action, 0.0, bool(action[1] == 7), False, {}


class Lights(Panel):
    action_space = spaces.MultiBinary(2)

    def step(self, action):
        assert self.action_space.contains(action)
        return action.astype(np.int64), 0.0, bool(action.all()), False, {}


class Odd(Torque):
    def __init__(self, **spaces_):
        vars(self).update(spaces_)


@pytest.mark.parametrize(
    "env",
    [
        gym.Gymnasium("CartPole-v1"),
        gym.Gymnasium("MountainCarContinuous-v0", {"max_episode_steps": 20}),
        gym.Gymnasium(Corridor, {"reward": 2.0}),
        gym.Gymnasium(Start),
        gym.Gymnasium(Torque),
        gym.Gymnasium(Nested),
        gym.Gymnasium(Panel),
        gym.Gymnasium(Lights),
    ],
    ids=str,
)
def test_conforms(env):
    conformance.check(env)


def test_spec_of_spaces():
    spec = gym.Gymnasium(Corridor).spec
    assert spec.observations["where"] == specs.DiscreteArray(6, np.int32, "observation.where")
    assert spec.observations["view"] == specs.BoundedArray((2,), np.float32, [-3, -3], [3, 3], "observation.view")
    assert spec.actions == specs.DiscreteArray(2, np.int32, "action")
    spec = gym.Gymnasium(Torque).spec
    assert spec.observations == specs.BoundedArray((2, 2), np.uint8, np.zeros((2, 2)), np.full((2, 2), 255))
    assert spec.actions == specs.BoundedArray((3,), np.float32, [-1] * 3, [np.inf] * 3)


def test_nests_keep_their_structure_and_numbers_begin_at_0():
    env = gym.Gymnasium(Nested)
    choices, rest = env.spec.observations
    assert [(choice.num_values, choice.name) for choice in choices] == [(2, "observation.0.0"), (3, "observation.0.1")]
    assert rest["flags"] == specs.BoundedArray((2,), np.int8, 0, 1, "observation.1.flags")
    assert [inner.num_values for inner in rest["inner"]] == [4]
    choices, rest = env(num_envs=2, seed=0).reset().observation
    assert [choice.tolist() for choice in choices] == [[1, 1], [1, 1]]
    assert rest["flags"].tolist() == [[1, 0], [1, 0]] and rest["inner"][0].tolist() == [0, 0]


def test_several_choices_are_one_array_and_begin_at_0():
    spec = gym.Gymnasium(Panel).spec.actions
    assert spec == specs.BoundedArray((2,), np.int32, 0, [1, 2], "action")
    env = gym.Gymnasium(Panel)(num_envs=2, seed=0)
    env.reset()
    assert env.step(np.array([[0, 0], [1, 2]], np.int32)).observation.tolist() == [[1, 5], [2, 7]]
    assert gym.Gymnasium(Lights).spec.actions == specs.BoundedArray((2,), np.int8, 0, 1, "action")


def test_it_is_drawn_as_it_draws_itself():
    """A pole that leans to the left is another picture than one that leans to the right."""
    env = gym.Gymnasium("CartPole-v1")(num_envs=2, seed=0)
    env.reset()
    for _ in range(5):
        env.step(np.array([0, 1]))
    picture = env.render()
    assert picture.shape == (2, 400, 600, 3) and picture.dtype == np.uint8
    assert (picture[0] != picture[1]).any()
    assert gym.Gymnasium(Corridor)(num_envs=1, seed=0).render() is None


class Drawn(Corridor):
    """Draws itself, if it is asked to."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode=None):
        super().__init__()
        self.render_mode = render_mode

    def render(self):
        return np.full((4, 6, 3), self.where)


class DrawnWithoutAWord(Drawn):
    def __init__(self):
        super().__init__()


def test_a_class_of_the_users_own_is_drawn_if_it_takes_the_mode():
    assert gym.Gymnasium(Drawn)(num_envs=2, seed=0).render().shape == (2, 4, 6, 3)
    assert gym.Gymnasium(lambda **kwargs: Drawn(**kwargs))(num_envs=1, seed=0).render() is not None
    assert gym.Gymnasium(DrawnWithoutAWord)(num_envs=1, seed=0).render() is None


def test_terminations_and_truncations():
    env = gym.Gymnasium(Corridor)(num_envs=2, seed=0)
    steps = [env.reset()] + [env.step(np.array([0, 1])) for _ in range(4)]
    assert [step.step_type.tolist() for step in steps] == [[0, 0], [1, 1], [2, 1], [0, 2], [1, 0]]
    assert [step.discount.tolist() for step in steps] == [[1, 1], [1, 1], [0, 1], [1, 1], [1, 1]]
    assert [step.observation["where"].tolist() for step in steps] == [[2, 2], [1, 3], [0, 4], [2, 5], [1, 2]]
    assert [step.observation["view"][0, 0] for step in steps] == [0, -1, -2, 0, -1]
    assert env.episodes() == [base.Episode(0, 2.0, 2), base.Episode(1, 3.0, 3)]


def test_termination_goes_before_truncation():
    env = gym.Gymnasium(Torque)(num_envs=1, seed=0)
    env.reset()
    step = env.step(np.zeros((1, 3), np.float32))
    assert (step.step_type, step.discount) == (base.LAST, 0)


def test_slots_and_seeds_differ():
    starts = [gym.Gymnasium(Start)(num_envs=16, seed=seed).reset().observation["where"] for seed in (0, 1)]
    assert len(set(starts[0].tolist())) > 1
    assert not np.array_equal(*starts)


def test_a_second_episode_goes_on_with_the_seed():
    batch = gym.Gymnasium(Start)(num_envs=16, seed=0)
    assert not np.array_equal(*[batch.reset().observation["where"] for _ in range(2)])


def test_pickles():
    env = gym.Gymnasium(Corridor, {"reward": 2.0})
    copy = pickle.loads(pickle.dumps(env))
    assert copy == env and copy.spec == env.spec


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (
            {"action_space": spaces.Dict()},
            "action_space is Dict.*; allowed: Box, Discrete, MultiBinary, MultiDiscrete$",
        ),
        (
            {"observation_space": spaces.Text(4)},
            "space of observation is Text.*; allowed: Box, Discrete, MultiBinary, MultiDiscrete, and",
        ),
        ({"observation_space": spaces.Dict(a=spaces.Text(2))}, "space of observation.a is Text"),
    ],
)
def test_refuses_spaces_that_agents_cannot_take(odd, message):
    with pytest.raises(ValueError, match=message):
        _ = gym.Gymnasium(Odd, odd).spec


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CartPool-v1", "`CartPool` doesn't exist. did you mean 'CartPole-v1'"),
        ("CartPole-v9", "version `v9` .*doesn't exist.* did you mean 'CartPole-v1'"),
        ("CartPole v1", "[Mm]alformed.* did you mean 'CartPole-v1'"),
    ],
)
def test_an_unknown_id_is_refused_with_what_is_near(name, message):
    with pytest.raises(ValueError, match=message):
        _ = gym.Gymnasium(name).spec


class Needy(gymnasium.Env):
    def __init__(self):
        raise gymnasium.error.DependencyNotInstalled("Box3D is not installed, run `pip install box3d`")


def test_a_missing_package_is_named_and_nothing_else_is_offered():
    gymnasium.register("Needy-v0", Needy)
    try:
        with pytest.raises(ValueError, match="^Box3D is not installed, run `pip install box3d`$"):
            _ = gym.Gymnasium("Needy-v0").spec
    finally:
        del gymnasium.registry["Needy-v0"]


def test_the_module_does_not_hide_the_library(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import gymnasium\nfrom boonta.envs import gymnasium as ours\nassert ours.gymnasium is gymnasium\n"
    )
    subprocess.run([sys.executable, str(script)], check=True, timeout=DEADLINE_S)
