"""Numbers of episodes besides their returns, from environments of every kind."""

from __future__ import annotations

import contextlib
import sys
import types

import dm_env
import gymnasium
import numpy as np
import pytest
from dm_env import specs
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from boonta.envs import base, conformance, envpool
from boonta.envs.continuing import Continuing
from boonta.envs.dm_env import DmEnv
from boonta.envs.gymnasium import Gymnasium
from boonta.envs.looped import LoopedEnv
from boonta.tests.helpers import guess

NAMES = ("is_success", "distance", "steps")


def played(env: base.Env, num_envs: int = 4, steps: int = 30) -> list[base.Episode]:
    """The episodes of a player that always takes action 0."""
    with contextlib.closing(env(num_envs, 0)) as batch:
        batch.reset()
        for _ in range(steps):
            batch.step(np.zeros(num_envs, np.int32))
        return batch.episodes()


def require_known(episodes: list[base.Episode], names=NAMES) -> None:
    """Asserts that the numbers are those that follow from the return, and that both outcomes are among them."""
    assert {episode.episode_return for episode in episodes} == {-1.0, 1.0}
    for episode in episodes:
        success = (1.0 + episode.episode_return) / 2.0
        known = {"is_success": success, "distance": 1.0 - success, "steps": float(guess.STEPS)}
        assert episode.metrics == {name: known[name] for name in names}
        assert {type(value) for value in episode.metrics.values()} == {float}


def vectorised(num_envs, **kwargs):
    return SyncVectorEnv([guess.Guess] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)


@pytest.mark.parametrize(
    "env",
    [
        Gymnasium(guess.Guess, metrics=NAMES),
        Gymnasium(guess.Guess, metrics=NAMES, workers=2),
        Gymnasium(vectorised, metrics=NAMES, vectorised=True),
        Continuing(Gymnasium(guess.Guess, metrics=NAMES)),
    ],
    ids=["alone", "workers", "vectorised", "continuing"],
)
def test_numbers_of_info_come_with_episodes_where_they_are_asked_for(env):
    require_known(played(env))


def test_an_episode_without_any_is_as_it_was():
    episodes = played(guess.plain)
    assert episodes and all(episode == base.Episode(*episode[:3]) for episode in episodes)
    with pytest.raises(TypeError):
        base.Episode(0, 1.0, 2).metrics["is_success"] = 1.0  # The same mapping is that of all others.


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize(
    ("name", "what"),
    [("success", "which isn't in"), ("who", "which is of type str in"), ("goal", "which is of type .* in")],
)
def test_what_is_missing_or_no_number_is_named_with_the_numbers_that_are_there(name, what, vector):
    settings = {"env": vectorised, "vectorised": True} if vector else {"env": guess.Guess}
    there = "numbers there: is_success, distance, steps$"
    with pytest.raises(ValueError, match=f"metrics has '{name}', {what} the environment's info at the end.*{there}"):
        played(Gymnasium(**settings, metrics=("steps", name)))


def test_an_info_without_numbers_says_so():
    with pytest.raises(ValueError, match="metrics has 'is_success', which isn't in .*; numbers there: none$"):
        played(Gymnasium("CartPole-v1", metrics=("is_success",)), steps=100)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ("is_success", "metrics is 'is_success'; it must be a tuple of names"),
        (("",), "it must be a tuple of names"),
        ((1,), "it must be a tuple of names"),
        (("a", "b", "a"), "no name may be there twice"),
    ],
)
def test_names_that_cannot_be_are_refused(metrics, message):
    with pytest.raises(ValueError, match=message):
        Gymnasium(guess.Guess, metrics=metrics)


class Masked(VectorEnv):
    """Slot i ends after i + 1 steps; its numbers are arrays, and only those of slots at their end are masked in."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
    single_observation_space = spaces.Box(0, 9, (1,))
    single_action_space = spaces.Discrete(2)

    def __init__(self, num_envs, masks=True):
        self.num_envs, self.masks = num_envs, masks
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.count = np.zeros(num_envs)

    def reset(self, *, seed=None, options=None):
        self.count[:] = 0
        return self.count[:, None], {}

    def step(self, action):
        slots = np.arange(self.num_envs)
        self.count = np.where(self.count > slots, 0, self.count + 1)
        done = self.count > slots
        info = {"cost": 10.0 * self.count, "all": 7.0, "_hidden": -self.count, "nested": {"cost": self.count}}
        masks = {"_cost": done, "wrong": self.count, "_wrong": ~done} if self.masks else {}
        return self.count[:, None], self.count, done, np.zeros_like(done), info | masks


def test_a_vectorised_environments_masks_are_heeded_where_there_are_any():
    for masks in (True, False):
        env = Gymnasium(Masked, {"masks": masks}, vectorised=True, metrics=("cost", "_hidden"))
        episodes = played(env, num_envs=3, steps=4)
        assert sorted((episode.slot, *episode.metrics.values()) for episode in episodes) == [
            (0, 10.0, -1.0),
            (0, 10.0, -1.0),
            (1, 20.0, -2.0),
            (2, 30.0, -3.0),
        ]
    for name in ("wrong", "all", "nested"):
        with pytest.raises(ValueError, match=rf"metrics has '{name}', which isn't in .*; numbers there: cost, _hidden"):
            played(Gymnasium(Masked, vectorised=True, metrics=(name,)), steps=4)


class Walk(dm_env.Environment):
    """Ends after two steps; the number is what `measured` says."""

    def __init__(self, measured, seed=0):
        self.measured, self.steps = measured, 0

    def reset(self):
        self.steps = 0
        return dm_env.restart(np.zeros(1, np.float32))

    def step(self, action):
        self.steps += 1
        return (dm_env.termination if self.steps == 2 else dm_env.transition)(1.0, np.zeros(1, np.float32))

    def observation_spec(self):
        return specs.Array((1,), np.float32, "nothing")

    def action_spec(self):
        return specs.DiscreteArray(2)

    def episode_metrics(self):
        assert self.steps == 2  # It is asked at the end of an episode alone, and before the next one.
        return self.measured


class Around:
    """A wrapper as those of dm_env and Acme: it passes on what it doesn't change."""

    def __init__(self, env):
        self._env = env

    def __getattr__(self, name):
        return getattr(self._env, name)


def test_a_method_of_a_dm_env_environment_gives_them():
    found = [played(DmEnv(make), steps=2) for make in (walk, around)]
    assert found[0] == found[1] == [base.Episode(i, 2.0, 2, {"hits": 3.0, "safe": 1.0}) for i in range(4)]
    conformance.check(DmEnv(walk), steps=20)


def walk(seed):
    return Walk({"hits": np.int64(3), "safe": np.bool_(True)}, seed)


def around(seed):
    return Around(walk(seed))


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        ([1.0], r"episode_metrics\(\) returns list; it must be a mapping of names to numbers"),
        ({"safe": "yes"}, r"episode_metrics\(\) returns 'safe': 'yes'; it must be a mapping of names to numbers"),
        ({"safe": np.zeros(2)}, "returns 'safe': array"),
        ({"safe": [[1], [1, 2]]}, "returns 'safe': "),
        ({"safe": None}, "returns 'safe': None"),
        ({3: 1.0}, "returns 3: 1.0"),
    ],
)
def test_what_the_method_must_not_return_is_shown(measured, message):
    env = LoopedEnv([Walk(measured)], DmEnv(walk).spec)
    env.reset()
    env.step(np.zeros(1, np.int32))
    with pytest.raises(ValueError, match=message):
        env.step(np.zeros(1, np.int32))


def test_envpools_environments_have_them_too(monkeypatch):
    class Pool(Masked):
        action_space, observation_space = Masked.single_action_space, Masked.single_observation_space

        def __init__(self, num_envs):
            super().__init__(num_envs)
            del self.action_space

    stand_in = types.SimpleNamespace(
        list_all_envs=lambda: ["Masked-v1"], make=lambda task, env_type, num_envs, **settings: Pool(num_envs)
    )
    monkeypatch.setitem(sys.modules, "envpool", stand_in)
    envpool._package.cache_clear()
    episodes = played(envpool.EnvPool("Masked-v1", metrics=("cost",)), num_envs=2, steps=2)
    assert [episode.metrics for episode in sorted(episodes)] == [{"cost": 10.0}, {"cost": 20.0}]
    with pytest.raises(ValueError, match="metrics is 'cost'; it must be a tuple of names"):
        envpool.EnvPool("Masked-v1", metrics="cost")
    envpool._package.cache_clear()


def test_a_wrapper_can_put_sums_there():
    class Summed(gymnasium.Wrapper):
        def reset(self, **options):
            self.earned = 0.0
            return self.env.reset(**options)

        def step(self, action):
            seen, reward, terminated, truncated, info = self.env.step(action)
            self.earned += abs(reward)
            return seen, reward, terminated, truncated, {**info, "effort": self.earned}

    episodes = played(Gymnasium(lambda: Summed(guess.Guess()), metrics=("effort",)))
    assert episodes and all(episode.metrics == {"effort": 1.0} for episode in episodes)
