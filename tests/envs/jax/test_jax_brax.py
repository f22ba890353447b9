"""Brax's environments: the tests' own, which has no bodies and compiles at once, and a pendulum of bodies."""

import sys

import numpy as np
import pytest
from dm_env import specs

pytest.importorskip("brax")

from boonta.envs import base, conformance, rendering  # noqa: E402
from boonta.envs.jax import brax as jax_brax  # noqa: E402
from boonta.envs.jax.purity import check_pure  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Brax System:UserWarning")


def test_keeps_the_contract():
    env = jax_brax.Brax("fast", max_episode_steps=12)
    check_pure(env)
    conformance.check(env, num_envs=2, steps=40)
    assert env.steps_per_s is None and env(1, 0).render() is None


def test_time_truncates_and_beyond_bounds_is_the_bound():
    batch = jax_brax.Brax("fast", max_episode_steps=3)(num_envs=2, seed=0)
    batch.reset()
    steps = [batch.step(np.array([[100.0], [1.0]], np.float32)) for _ in range(4)]
    assert [step.step_type.tolist() for step in steps] == [[base.MID] * 2] * 2 + [[base.LAST] * 2, [base.FIRST] * 2]
    assert steps[2].discount.tolist() == [1, 1] and (steps[2].observation[0] == steps[2].observation[1]).all()


@pytest.mark.once
@pytest.mark.unoptimised
def test_bodies_fall_and_are_drawn():
    """The pendulum ends, with discount 0, where it has fallen; the cart's push is the only way to hold it."""
    env = jax_brax.Brax("inverted_pendulum", backend="spring")
    assert env.spec.observations == specs.Array((4,), np.float32, "observation")
    assert env.spec.actions == specs.BoundedArray((1,), np.float32, [-1.0], [1.0], "action")
    batch = env(num_envs=2, seed=0)
    started, shown = batch.reset(), batch.render()
    for t in range(1, 100):
        step = batch.step(np.ones((2, 1), np.float32))
        if t == 2:
            assert batch.steps_per_s == pytest.approx(50)
            if rendering.choose() != rendering.NONE:
                assert shown.shape == (2, 240, 320, 3) and (shown != batch.render()).any()
        if (step.step_type == base.LAST).any():
            break
    ended = step.step_type == base.LAST
    assert ended.any() and (step.discount[ended] == 0).all() and (np.abs(step.observation[ended, 1]) > 0.2).all()
    assert (np.abs(started.observation[:, 1]) < 0.2).all()


def test_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "brax", None)
    jax_brax._make.cache_clear()
    with pytest.raises(ImportError, match=r"needs brax, which can't be imported .*boonta-rl\[brax\]"):
        jax_brax.Brax("ant")


def test_refuses_bad_settings():
    with pytest.raises(ValueError, match="env is 'hoper', which brax does not know; did you mean 'hopper'"):
        jax_brax.Brax("hoper")
    with pytest.raises(ValueError, match="max_episode_steps is 0; it must be at least 1"):
        jax_brax.Brax("fast", max_episode_steps=0)
