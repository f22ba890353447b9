"""Environments that return what Gymnasium's don't."""

import re

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from boonta.envs import conformance
from boonta.envs import gymnasium as gym

BIT = spaces.Discrete(2)
SEEN = {"seen": np.zeros(2, np.float32), "told": (0, 1)}


def returning(**changed):
    """An environment whose methods return these values; its reset returns what it should, unless it is among them."""
    values = {"reset": (SEEN, {}), **changed}
    env = gymnasium.Env()
    env.observation_space = spaces.Dict(seen=spaces.Box(-1, 1, (2,)), told=spaces.Tuple((BIT, BIT)))
    env.action_space = BIT
    for name, value in values.items():
        setattr(env, name, lambda *args, value=value, **kwargs: value)
    return env


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"reset": SEEN}, "environment's reset returns dict; by Gymnasium's API it is (observation, info)"),
        (
            {"step": (SEEN, 0.0, False, {})},
            "environment's step returns 4 values; by Gymnasium's API it is (observation, r",
        ),
        (
            {"reset": ({"seen": SEEN["seen"]}, {})},
            "observation is a dict of ['seen']; its space is a Dict of ['seen', 'told']",
        ),
        ({"reset": (SEEN["seen"], {})}, "observation is ndarray; its space is a Dict of"),
        ({"reset": ({**SEEN, "told": (0,)}, {})}, "observation is a tuple of 1; its space is a Tuple of 2"),
        ({"step": (SEEN, None, False, False, {})}, "environment's reward is None; it must be one number"),
    ],
)
def test_what_a_method_returns_is_refused_by_its_name(changed, message):
    env = gym.Gymnasium(lambda: returning(**changed))(1, seed=0)
    with pytest.raises(ValueError, match=re.escape(message)):
        env.reset()
        env.step(np.zeros(1, np.int32))


def test_an_environment_of_another_interface_is_refused_with_its_adapter():
    with pytest.raises(conformance.ConformanceError, match="an EnvSpec; seen: .*; as one of Gymnasium's, return"):
        conformance.check(gymnasium.make("CartPole-v1"))


class Old(gymnasium.Env):
    observation_space = action_space = BIT

    def reset(self):
        return 0


def test_an_environment_whose_reset_takes_no_seed_is_refused_with_its_spec():
    with pytest.raises(ValueError, match=r"Old.reset: .*'seed'; by Gymnasium's API it is reset\(seed=None, op"):
        _ = gym.Gymnasium(Old).spec


def test_arguments_that_the_callable_lacks_or_does_not_take_are_refused_at_once():
    def make(size):
        raise AssertionError

    with pytest.raises(ValueError, match="make.* can't be called with kwargs {}: missing a required argument: 'size'"):
        gym.Gymnasium(make)
    with pytest.raises(ValueError, match="got an unexpected keyword argument 'sise'"):
        gym.Gymnasium(make, {"size": 3, "sise": 4})
    gym.Gymnasium(make, {"size": 3})
