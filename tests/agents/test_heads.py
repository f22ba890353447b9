"""Action heads against probabilities by hand; a support's round trip."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.agents import heads

P = np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]], np.float32)
HEAD = heads.categorical(3)


def test_categorical_by_hand():
    logits = jnp.log(P) + 5.0
    policy = HEAD.distribution(logits)
    np.testing.assert_allclose(policy.log_prob(jnp.array([1, 2])), np.log([0.25, 0.7]), rtol=1e-5)
    np.testing.assert_allclose(policy.entropy(), -(P * np.log(P)).sum(-1), rtol=1e-5)
    assert policy.mode().tolist() == [0, 2] and HEAD.size == 3
    action = HEAD.distribution(jnp.tile(logits[1], (4000, 1))).sample(jax.random.PRNGKey(0))
    assert action.dtype == jnp.int32
    np.testing.assert_allclose(np.bincount(action) / 4000, P[1], atol=0.03)


def test_illegal_actions_have_no_probability_no_entropy_and_no_gradient():
    legal = jnp.array([True, False, True])

    def entropy(logits):
        return HEAD.distribution(heads.mask_illegal(logits, legal)).entropy()

    logits = jnp.log(P[0])
    masked = heads.mask_illegal(logits, legal)
    np.testing.assert_allclose(jax.nn.softmax(masked), [2 / 3, 0, 1 / 3], rtol=1e-5)
    p = np.array([2 / 3, 1 / 3])
    np.testing.assert_allclose(entropy(logits), -(p * np.log(p)).sum(), rtol=1e-5)
    gradient = jax.grad(entropy)(logits)
    assert np.isfinite(gradient).all() and gradient[1] == 0 and gradient[0] != 0
    action = HEAD.distribution(jnp.tile(masked, (1000, 1))).sample(jax.random.PRNGKey(0))
    assert set(np.asarray(action).tolist()) == {0, 2}


def test_a_space_without_a_head_is_refused_by_name():
    assert heads.make_action_head(specs.DiscreteArray(4), "DQN").size == 4
    with pytest.raises(ValueError, match="DQN chooses among discrete actions; .*BoundedArray"):
        heads.make_action_head(specs.BoundedArray((2,), np.float32, -1, 1), "DQN")


def test_scalars_survive_their_support():
    support = heads.make_support(limit=10.0, bins=21)
    values = jnp.array([-10.0, -1.5, 0.0, 0.3, 10.0])
    np.testing.assert_allclose(support.apply_inv(support.apply(values)), values, atol=1e-2)
    logits = jnp.log(support.apply(values) + 1e-9)
    np.testing.assert_allclose(heads.expectation(support, logits), values, atol=1e-2)


def test_layers_of_values():
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    scalar = hk.without_apply_rng(hk.transform(lambda x: heads.scalar_head(x, "value")))
    params = scalar.init(jax.random.PRNGKey(0), x)
    np.testing.assert_allclose(scalar.apply(params, x), x @ params["value"]["w"][:, 0], rtol=1e-5)
    dense = hk.without_apply_rng(hk.transform(lambda x: heads.dense_head(x, 7, 6, "policy")))
    params = dense.init(jax.random.PRNGKey(0), x)
    assert params["policy_0"]["w"].shape == (5, 6) and params["policy_out"]["w"].shape == (6, 7)
    np.testing.assert_array_equal(dense.apply(params, x), np.zeros((4, 7)))
