"""Tests the brax adapter with a fake of brax's interface, because brax is not a dependency of the project."""

import dataclasses
import sys
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.envs import base, conformance
from boonta.envs.jax import brax as jax_brax
from boonta.envs.jax.base import as_env, check_pure


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class FakeState:
    obs: Any
    reward: Any
    done: Any


class Slide:
    """A point that the action pushes; the episode ends beyond 1, where `done` is 1.0, as in brax."""

    observation_size, action_size = 1, 1

    def __init__(self, backend="generalized"):
        self.strength = {"generalized": 0.5, "spring": 0.25}[backend]

    def reset(self, key):
        return FakeState(jax.random.uniform(key, (1,), minval=-0.1, maxval=0.1), jnp.zeros(()), jnp.zeros(()))

    def step(self, state, action):
        obs = state.obs + self.strength * action
        return FakeState(obs, obs[0], jnp.where(abs(obs[0]) > 1, 1.0, 0.0))


@pytest.fixture
def fake(monkeypatch):
    envs = types.SimpleNamespace(get_environment=lambda name, **kwargs: {"slide": Slide}[name](**kwargs))
    monkeypatch.setitem(sys.modules, "brax", types.SimpleNamespace(envs=envs))
    jax_brax._make.cache_clear()
    yield
    jax_brax._make.cache_clear()


def test_keeps_the_contract(fake):
    env = jax_brax.Brax("slide", max_episode_steps=12)
    check_pure(env)
    conformance.check(as_env(env), steps=60)


def test_ends_and_clipped_actions(fake):
    batch = as_env(jax_brax.Brax("slide", max_episode_steps=3))(num_envs=2, seed=0)
    start = batch.reset().observation
    first = batch.step(np.array([[100.0], [0.0]]))  # The action is clipped to 1.
    np.testing.assert_allclose(first.observation - start, [[0.5], [0]], atol=1e-6)
    batch.step(np.array([[0.0], [0.0]]))
    last = batch.step(np.array([[1.0], [0.0]]))
    assert last.step_type.tolist() == [base.LAST] * 2
    assert last.discount.tolist() == [0.0 if last.observation[0, 0] > 1 else 1.0, 1.0]


def test_the_backend_is_passed_on(fake):
    batch = as_env(jax_brax.Brax("slide", backend="spring"))(num_envs=1, seed=0)
    start = batch.reset().observation
    np.testing.assert_allclose(batch.step(np.ones((1, 1))).observation - start, 0.25, atol=1e-6)


def test_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "brax", None)
    jax_brax._make.cache_clear()
    with pytest.raises(ImportError, match="needs brax, which can't be imported .*; pip install brax"):
        jax_brax.Brax("ant")


def test_refuses_bad_settings(fake):
    with pytest.raises(ValueError, match="env is 'slid', which brax does not know"):
        jax_brax.Brax("slid")
    with pytest.raises(ValueError, match="max_episode_steps is 0; it must be at least 1"):
        jax_brax.Brax("slide", max_episode_steps=0)
