"""Every environment here passes the suite, and for every rule an environment that breaks it fails."""

import dataclasses
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dm_env import specs

from boonta.envs import atari, base, catch, conformance
from boonta.envs import gymnasium as gym

GAME = catch.Catch(rows=5, columns=3)


@pytest.mark.parametrize(
    "env",
    [
        catch.Catch(),
        GAME,
        gym.Gymnasium("CartPole-v1"),
        gym.Gymnasium("Pendulum-v1", {"max_episode_steps": 30}),
        atari.Atari("Pong", max_episode_frames=41 * 4, repeat_action_probability=0.25),
    ],
    ids=str,
)
def test_passes(env):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # There is a warning if no episode ended.
        conformance.check(env, num_envs=2)


@pytest.mark.once
def test_games_of_several_lives_pass():
    env = atari.Atari("Breakout", life_loss=True, fire_reset=True, max_episode_frames=70 * 4)
    conformance.check(env, num_envs=2, lives=True)


def test_one_slot_passes():
    conformance.check(GAME, num_envs=1, seed=5)


def test_warns_where_no_episode_ends():
    with pytest.warns(UserWarning, match="no episode ended in 20 steps"):
        conformance.check(gym.Gymnasium("Pendulum-v1"), steps=20)


@dataclasses.dataclass(frozen=True)
class Broken:
    """Catch in a wrapper that breaks a rule."""

    wrapper: Callable[[base.BatchedEnv, int], base.BatchedEnv]
    spec: Any = GAME.spec

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        return self.wrapper(GAME(num_envs, seed), seed)


class Wrapper(base.BatchedEnv):
    """Passes everything through; subclasses break one rule each."""

    def __init__(self, env: base.BatchedEnv, seed: int):
        self.env, self.num_envs, self.spec = env, env.num_envs, env.spec
        self.played: list[base.Episode] = []

    def reset(self):
        return self.change(self.env.reset())

    def step(self, action):
        return self.change(self.env.step(action))

    def episodes(self):
        return self.env.episodes()

    def change(self, timestep: base.TimeStep) -> base.TimeStep:
        return timestep


def changed(field: str, change: Callable[[base.TimeStep], Any]) -> type[Wrapper]:
    """Returns a wrapper that changes a field of every step."""
    return type("Changed", (Wrapper,), {"change": lambda self, step: step._replace(**{field: change(step)})})


def is_(step: base.TimeStep, step_type: int) -> np.ndarray:
    return step.step_type == step_type


class NoFirst(Wrapper):
    def step(self, action):
        step = self.env.step(action)
        return step._replace(step_type=np.maximum(step.step_type, base.MID))


class FirstTwice(Wrapper):
    def step(self, action):
        step = self.env.step(action)
        step.step_type[1] = base.FIRST
        return step._replace(reward=np.where(is_(step, base.FIRST), np.float32(0), step.reward))


class OneBuffer(Wrapper):
    def __init__(self, env, seed):
        super().__init__(env, seed)
        self.buffer = np.zeros((env.num_envs, *env.spec.observations.shape), np.float32)

    def change(self, timestep):
        self.buffer[:] = timestep.observation
        return timestep._replace(observation=self.buffer)


class Unseeded(Wrapper):
    def __init__(self, env, seed):
        super().__init__(GAME(env.num_envs, np.random.SeedSequence().entropy), seed)


class HeedsLast(Wrapper):
    def step(self, action):
        step = self.env.step(action)
        shown = np.where(is_(step, base.FIRST) & (action == 2), 0, 1)[:, None, None]
        return step._replace(observation=(step.observation * shown).astype(np.float32))


class Entangled(Wrapper):
    def __init__(self, env, seed, of=0, on=1):
        super().__init__(env, seed)
        self.of, self.on = of, on

    def step(self, action):
        step = self.env.step(action)
        if action[self.of] == 0:
            step.observation[self.on] = 0
        return step


class EntangledBackwards(Entangled):
    def __init__(self, env, seed):
        super().__init__(env, seed, of=1, on=0)


class EpisodesTwice(Wrapper):
    def episodes(self):
        self.played += self.env.episodes()
        return self.played


class EpisodesLate(Wrapper):
    def episodes(self):
        late, self.played = self.played, self.env.episodes()
        return late


def episodes_with(**fields) -> type[Wrapper]:
    """Returns a wrapper that changes a field of every episode."""
    change = {"episodes": lambda self: [episode._replace(**fields) for episode in self.env.episodes()]}
    return type(f"Wrong_{'_'.join(fields)}", (Wrapper,), change)


class ForgetsNothing(Wrapper):
    """Goes on counting an episode that a reset cuts short."""

    def __init__(self, env, seed):
        super().__init__(env, seed)
        self.length = 0

    def step(self, action):
        step = self.env.step(action)
        self.length += step.step_type[0] != base.FIRST
        return step

    def episodes(self):
        given = [episode._replace(env_steps=self.length) for episode in self.env.episodes()]
        self.length = 0 if given else self.length
        return given


class TakesAnything(Wrapper):
    def step(self, action):
        return super().step(action[: self.num_envs])


class WrongError(Wrapper):
    def step(self, action):
        if len(action) != self.num_envs:
            raise KeyError("shape")
        return super().step(action)


class WrongNumber(Wrapper):
    def __init__(self, env, seed):
        super().__init__(env, seed)
        self.num_envs += 1


class WrongSpec(Wrapper):
    def __init__(self, env, seed):
        super().__init__(env, seed)
        self.spec = env.spec._replace(frames_per_step=2)


ON_RESET = "slot 0, step 0"
WRAPPERS = [
    (changed("step_type", lambda step: step.step_type + 1), "within its spec's bounds", "seen: 3, slot 0, step 4"),
    (changed("step_type", lambda step: np.maximum(step.step_type, 1)), "after reset() is FIRST", ON_RESET),
    (NoFirst, "the step after LAST and after reset() is FIRST", "slot 0, step 5"),
    (FirstTwice, "FIRST comes after LAST and after reset() only", "slot 1, step 1"),
    (changed("step_type", lambda step: step.step_type.astype(np.int64)), "step_type has dtype int32", "int64, step 0"),
    (changed("step_type", lambda step: step.step_type[:1]), "step_type has shape (3,)", "(1,), step 0"),
    (changed("reward", lambda step: step.reward + 1), "the reward on FIRST is 0", ON_RESET),
    (changed("reward", lambda step: step.reward.astype(np.float64)), "reward has dtype float32", "float64, step 0"),
    (changed("reward", lambda step: step.reward + np.float32(np.nan)), "reward is never nan", ON_RESET),
    (changed("discount", lambda step: step.discount * 0), "the discount on FIRST is 1", ON_RESET),
    (
        changed("discount", lambda step: step.discount * 2),
        "discount is within its spec's bounds, from 0.0 to 1.0",
        "2.0, slot 0, step 0",
    ),
    (changed("discount", lambda step: list(step.discount)), "the structure of the spec", "lacks discount; it has"),
    (changed("discount", lambda step: None), "discount is a numpy array", "NoneType, step 0"),
    (changed("observation", lambda step: step.observation[0]), "observation has shape (3, 5, 3)", "(5, 3), step 0"),
    (changed("observation", lambda step: step.observation * 2), "observation is within its spec's bounds", ON_RESET),
    (changed("observation", lambda step: {"board": step.observation}), "structure", "has besides observation.board"),
    (OneBuffer, "no step writes into arrays that were given before", "observation differs, slot 0, step 0"),
    (Unseeded, "the same seed and actions give the same steps", "observation differs"),
    (HeedsLast, "the action on LAST is ignored", "observation differs"),
    (Entangled, "no slot depends on the actions of another", "observation differs, slot 1, step 1"),
    (EntangledBackwards, "no slot depends on the actions of another", "observation differs, slot 0"),
    (EpisodesTwice, "episodes() gives each episode as it ends", "step 5"),
    (EpisodesLate, "episodes() gives each episode as it ends", "step 4"),
    (episodes_with(episode_return=0.5), "episodes() gives each episode as it ends", "step 4"),
    (episodes_with(env_steps=5), "episodes() gives each episode as it ends", "step 4"),
    (episodes_with(slot=0), "episodes() gives each episode as it ends", "step 4"),
    (ForgetsNothing, "episodes() gives each episode as it ends", "step 21"),
    (TakesAnything, "refuses an action of the wrong shape", "4 actions passed for 3 slots"),
    (WrongError, "refuses an action of the wrong shape", "KeyError"),
    (WrongNumber, "the batch has as many slots as asked for", "4, not 3"),
    (WrongSpec, "the batch has the factory's spec", "frames_per_step=2"),
]


def rules(cases: list) -> list[str]:
    return [re.sub(r"\W+", "-", f"{getattr(case, '__name__', '')} {rule}") for case, rule, _ in cases]


@pytest.mark.parametrize(("wrapper", "rule", "seen"), WRAPPERS, ids=rules(WRAPPERS))
def test_catches_broken_rule(wrapper, rule, seen, monkeypatch):
    monkeypatch.setattr(conformance, "_check_pickle", lambda env: None)  # Local classes can't be pickled.
    with pytest.raises(conformance.ConformanceError) as caught:
        conformance.check(Broken(wrapper), steps=60)
    assert rule in str(caught.value) and seen in str(caught.value)


def test_catches_more_games_than_ends():
    with pytest.raises(conformance.ConformanceError, match="no more games than there are LAST steps; seen: .* over 33"):
        conformance.check(Broken(EpisodesTwice), steps=60, lives=True)


def test_the_wrapper_itself_breaks_nothing():
    conformance.check(Broken(Wrapper), steps=60)


SPECS = [
    (tuple(GAME.spec), "spec is an EnvSpec", "(BoundedArray"),
    (GAME.spec._replace(observations={"board": (5, 3)}), "observations is a nest of dm_env specs", "board.0: 5"),
    (GAME.spec._replace(observations=specs.Array((2,), np.int64)), "integers have at most 32 bits", "is int64"),
    (GAME.spec._replace(actions=specs.DiscreteArray(3, np.int64)), "integers have at most 32 bits", "actions is int64"),
    (GAME.spec._replace(actions=specs.Array((), np.int32)), "actions is a DiscreteArray or a BoundedArray", "Array("),
    (GAME.spec._replace(rewards=specs.Array((), np.float64)), "rewards is a float32 scalar", "float64"),
    (GAME.spec._replace(discounts=specs.Array((1,), np.float32)), "discounts is a float32 scalar", "(1,)"),
    (GAME.spec._replace(discounts=base.REWARD), "discounts is bounded by 0 and 1", "reward"),
    (GAME.spec._replace(discounts=specs.BoundedArray((), np.float32, 0, 2)), "bounded by 0 and 1", "maximum=2"),
    (GAME.spec._replace(frames_per_step=0), "frames_per_step is an int of at least 1", "seen: 0"),
]


@pytest.mark.parametrize(("spec", "rule", "seen"), SPECS, ids=rules(SPECS))
def test_catches_broken_spec(spec, rule, seen):
    with pytest.raises(conformance.ConformanceError) as caught:
        conformance.check(Broken(Wrapper, spec))
    assert rule in str(caught.value) and seen in str(caught.value)


def test_catches_factory_that_cannot_be_pickled():
    with pytest.raises(conformance.ConformanceError, match="the factory can be pickled.*lambda"):
        conformance.check(Broken(lambda env, seed: Wrapper(env, seed)))


class Forgetful(catch.Catch):
    def __reduce__(self):
        return catch.Catch, ()


def test_catches_factory_that_is_another_once_pickled():
    with pytest.raises(conformance.ConformanceError, match="its spec stays the same"):
        conformance.check(Forgetful(rows=5, columns=3))
