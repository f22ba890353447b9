"""The suite's rules for real-valued actions and nested observations: environments that break them fail."""

import dm_env
import numpy as np
import pytest
from dm_env import specs

from boonta.envs import actions, conformance
from boonta.envs.dm_env import DmEnv
from boonta.envs.looped import LoopedEnv


class Slide(dm_env.Environment):
    """A point that actions from -1 to 2 push; the second action has no upper bound. It ends after five steps."""

    def __init__(self, seed):
        self.rng, self.where, self.steps = np.random.default_rng(seed), np.zeros(2), 0

    def observation_spec(self):
        return {"where": specs.Array((2,), np.float64), "time": (specs.DiscreteArray(6, np.int32),)}

    def action_spec(self):
        return specs.BoundedArray((2,), np.float64, [-1, -1], [2, np.inf])

    def reset(self):
        self.where, self.steps = self.rng.uniform(size=2), 0
        return dm_env.restart(self._shown())

    def step(self, action):
        self.where, self.steps = self.where + action, self.steps + 1
        end = dm_env.truncation if self.steps == 5 else dm_env.transition
        return end(float(self.where[0]), self._shown())

    def _shown(self):
        return {"where": self.where.copy(), "time": (self.steps,)}


class Changed:
    """The slide in a batch that breaks a rule."""

    def __init__(self, change, spec=lambda spec: spec):
        self.change, self.spec = change, spec(DmEnv(Slide).spec)

    def __call__(self, num_envs, seed):
        return self.change(DmEnv(Slide).slots(num_envs, seed), self.spec)


class Unclipped(LoopedEnv):
    """It clips no action; nor does the adapter of each slot, which is passed by."""

    def step(self, action):
        if len(action) != self.num_envs:
            raise ValueError("shape")
        return self._batch(
            [env.reset() if last else env._env.step(a) for env, a, last in zip(self._envs, action, self._last)]
        )


class TwoLeaves(LoopedEnv):
    def reset(self):
        return (
            super()
            .reset()
            ._replace(observation=[np.zeros((self.num_envs, 2), np.float32), np.zeros(self.num_envs, int)])
        )


def test_a_sound_one_conforms():
    conformance.check(DmEnv(Slide), steps=40)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Changed(Unclipped), "a real action beyond its bounds is the same as the bound; seen: reward differs"),
        (Changed(TwoLeaves), "a step has the structure of the spec"),
        (
            Changed(LoopedEnv, lambda spec: spec._replace(observations={"where": specs.Array((2,), np.float64)})),
            "real numbers are float32; seen: where of observations is float64",
        ),
        (
            Changed(LoopedEnv, lambda spec: spec._replace(observations={"where": specs.Array((2,), np.complex64)})),
            "observations are numbers: float32, integers or bools; seen: where of observations is complex64",
        ),
        (
            Changed(LoopedEnv, lambda spec: spec._replace(observations={"name": specs.Array((), "U3")})),
            "observations are numbers: .*; seen: name of observations is <U3",
        ),
        (
            Changed(LoopedEnv, lambda spec: spec._replace(actions=specs.BoundedArray((2,), np.float64, -1, 1))),
            "actions are integers or float32; seen: .*float64",
        ),
    ],
)
def test_catches_broken_rule(env, message, monkeypatch):
    monkeypatch.setattr(conformance, "_check_pickle", lambda env: None)
    with pytest.raises(conformance.ConformanceError, match=message):
        conformance.check(env, steps=40)


def test_actions_are_moved_to_a_bound_and_beyond_it_and_those_without_one_stay():
    spec = specs.BoundedArray((3,), np.float32, [-1, -1, -np.inf], [2, np.inf, np.inf])
    within, beyond = actions.beyond_bounds(spec, np.array([[0.4, 7, 3], [0.6, -0.9, -3]], np.float32))
    assert within.tolist() == [[-1, -1, 3], [2, -1, -3]] and beyond.tolist() == [[-2, -2, 3], [3, -2, -3]]
    assert within.dtype == np.float32
