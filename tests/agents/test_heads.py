"""Action heads against probabilities by hand; a support's round trip."""

from __future__ import annotations

import math

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.agents import distributions, heads
from boonta.agents.groups import Gaussian

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

P = np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]], np.float32)
HEAD = heads.categorical(3)


def test_categorical_by_hand():
    @jax.jit
    def found(logits):
        policy = HEAD.distribution(logits)
        action = HEAD.distribution(jnp.tile(logits[1], (4000, 1))).sample(jax.random.PRNGKey(0))
        return policy.log_prob(jnp.array([1, 2])), policy.entropy(), policy.mode(), action

    log_prob, entropy, mode, action = jax.device_get(found(np.log(P) + np.float32(5)))
    np.testing.assert_allclose(log_prob, np.log([0.25, 0.7]), rtol=1e-5)
    np.testing.assert_allclose(entropy, -(P * np.log(P)).sum(-1), rtol=1e-5)
    assert mode.tolist() == [0, 2] and HEAD.size == 3
    assert action.dtype == np.int32
    np.testing.assert_allclose(np.bincount(action) / 4000, P[1], atol=0.03)


def test_illegal_actions_have_no_probability_no_entropy_and_no_gradient():
    legal = np.array([True, False, True])

    def entropy(logits):
        return HEAD.distribution(heads.mask_illegal(logits, legal)).entropy()

    @jax.jit
    def found(logits):
        masked = heads.mask_illegal(logits, legal)
        action = HEAD.distribution(jnp.tile(masked, (1000, 1))).sample(jax.random.PRNGKey(0))
        return jax.nn.softmax(masked), *jax.value_and_grad(entropy)(logits), action

    probability, value, gradient, action = jax.device_get(found(np.log(P[0])))
    np.testing.assert_allclose(probability, [2 / 3, 0, 1 / 3], rtol=1e-5)
    p = np.array([2 / 3, 1 / 3])
    np.testing.assert_allclose(value, -(p * np.log(p)).sum(), rtol=1e-5)
    assert np.isfinite(gradient).all() and gradient[1] == 0 and gradient[0] != 0
    assert set(action.tolist()) == {0, 2}


TORQUE = specs.BoundedArray((2, 2), np.float32, [[-2, -1], [0, -3]], [[2, 1], [10, -1]])
REACH = specs.BoundedArray((3,), np.float32, [-2, -np.inf, -3e38], [2, 5, 3e38])  # Only the first has a range.
CHOICES = specs.BoundedArray((2,), np.int32, [0, -1], [2, 1])
SPACES = [specs.DiscreteArray(4), CHOICES, TORQUE]


def initialised(head, features=5, rows=3, scale=1.0):
    """Parameters [rows, P] of a head, as its layer makes them from random features, and the layer's params."""
    x = scale * np.random.default_rng(0).normal(size=(rows, features)).astype(np.float32)
    layer = hk.without_apply_rng(hk.transform(lambda x: head.layer(x, "policy", None)))
    params = jax.jit(layer.init)(jax.random.PRNGKey(0), x)
    return jax.jit(layer.apply)(params, x), params


@pytest.mark.parametrize("spec", SPACES, ids=str)
def test_a_heads_actions_are_the_specs(spec):
    head = heads.make_action_head(spec, "IMPALA")
    parameters, _ = initialised(head)
    assert parameters.shape == (3, head.size)

    @jax.jit
    def found(parameters, key):
        """The mode, a sample and what else is known of them; then a sample with its log-probability."""
        policy = head.distribution(parameters)
        actions = policy.mode(), policy.sample(key)
        of_each = [(action, policy.log_prob(action), policy.entropy(), head.encode(action)) for action in actions]
        return of_each, policy.sample_and_log_prob(key)

    of_each, (action, log_prob) = jax.device_get(found(parameters, jax.random.PRNGKey(0)))
    for each, its_log_prob, entropy, code in of_each:
        assert each.shape == (3, *spec.shape) and each.dtype == spec.dtype
        for one in each:
            spec.validate(one)
        assert its_log_prob.shape == entropy.shape == (3,)
        assert code.ndim == 2
    np.testing.assert_array_equal(action, each)
    np.testing.assert_allclose(log_prob, its_log_prob, atol=1e-2)


def test_actions_are_scaled_to_the_specs_bounds_and_back():
    box = heads.real_actions(TORQUE, "SAC")
    np.testing.assert_allclose(box.unscale(jnp.ones(4)), TORQUE.maximum)
    np.testing.assert_allclose(
        box.unscale(jnp.array([[-1.0, -1, -1, -1], [0, 0, 0, 0.5]])), [TORQUE.minimum, [[0, 0], [5, -1.5]]]
    )
    action = jnp.array([[1.0, -0.5], [2.5, -2.0]])
    np.testing.assert_allclose(box.scale(action), [0.5, -0.5, -0.5, 0])
    np.testing.assert_allclose(box.unscale(box.scale(action)), action, rtol=1e-6)


def test_saturated_actions_are_the_bounds_and_their_density_is_the_scaled_ones():
    head = heads.make_action_head(TORQUE, "SAC")
    parameters = jnp.concatenate([jnp.array([50.0, -50, 50, -50]), jnp.zeros(4)])
    policy = head.distribution(parameters)
    bound = jnp.array([[2.0, -1], [10, -3]])
    np.testing.assert_array_equal(policy.mode(), bound)
    inner = distributions.squashed_gaussian(parameters[:4], jnp.ones(4))
    np.testing.assert_array_equal(policy.log_prob(bound), inner.log_prob(jnp.array([1.0, -1, 1, -1])))


def test_a_plain_gaussian_may_leave_the_bounds_and_needs_none():
    head = heads.make_action_head(REACH, "PPO", Gaussian("plain", "free"))
    parameters, params = initialised(head)
    np.testing.assert_array_equal(parameters[:, 3:], 0)  # One deviation, e^0, for all states.
    assert params["~"]["policy_log_deviation"].shape == (3,) and params["policy"]["w"].shape == (5, 3)
    policy = head.distribution(jnp.array([1.5, 7.0, 0.0, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(policy.mode(), [3.0, 7.0, 0.0])  # Half of the first range is 2.
    np.testing.assert_allclose(policy.log_prob(policy.mode()), -1.5 * np.log(2 * np.pi), rtol=1e-6)
    np.testing.assert_allclose(head.encode(jnp.array([3.0, 7.0, -0.5])), [1.0, 5.0, -0.5])  # As the env clips them.


def test_policies_start_in_the_middle_whatever_the_features():
    parameters, _ = initialised(heads.make_action_head(TORQUE, "SAC"), scale=10.0)
    assert np.abs(parameters).max() < 0.3


def test_what_an_action_is_as_an_input():
    assert heads.make_action_head(specs.DiscreteArray(3), "IMPALA").encode(jnp.array(1)).tolist() == [0, 1, 0]
    head = heads.make_action_head(CHOICES, "IMPALA")
    np.testing.assert_array_equal(head.encode(jnp.array([2, -1])), [0, 0, 1, 1, 0, 0])
    assert head.entropy_uniform == pytest.approx(np.log(9))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (REACH, "SAC squashes its actions into their bounds, and some have none: .*BoundedArray.*; give it finite"),
        (specs.Array((2,), np.float32, "torque"), "squashes its actions .* Array.*'torque'"),
        (specs.BoundedArray((2,), np.float32, 1, 1), "SAC: each action's minimum must be below its maximum"),
        (specs.BoundedArray((2,), np.int32, 0, 1024), "SAC chooses among at most 1,024 values of each integer"),
        (specs.Array((2,), np.int32), "SAC needs bounds of integer actions"),
        (specs.BoundedArray((0,), np.float32, -1, 1), "SAC takes actions of real numbers"),
    ],
)
def test_a_space_without_a_head_is_refused_by_name(spec, message):
    with pytest.raises(ValueError, match=message):
        heads.make_action_head(spec, "SAC")


def test_agents_for_one_kind_of_action_refuse_the_others_by_name():
    assert heads.num_actions(specs.DiscreteArray(4), "DQN") == 4
    choices, torques = math.prod(CHOICES.shape), math.prod(TORQUE.shape)
    several = f"this environment takes {choices} choices at once, for which there are IMPALA and PPO$"
    real = f"this environment takes {torques} real numbers, for which there are IMPALA, PPO, SAC and TD3$"
    for spec, words in (CHOICES, several), (TORQUE, real):
        with pytest.raises(ValueError, match=f"DQN chooses among discrete actions; {words}"):
            heads.num_actions(spec, "DQN")
    one = "this environment takes one of 4 discrete actions, for which there are IMPALA, PPO, MuZero, DQN and R2D2$"
    for spec, words in (CHOICES, several), (specs.DiscreteArray(4), one):
        with pytest.raises(ValueError, match=f"SAC takes actions of real numbers; {words}"):
            heads.real_actions(spec, "SAC")


def test_an_entropy_has_the_name_of_its_kind():
    metrics = heads.entropy_metrics(HEAD, jnp.float32(0.5))
    assert {name: float(value) for name, value in metrics.items()} == pytest.approx(
        {"entropy": 0.5, "entropy_uniform": np.log(3)}
    )
    assert list(heads.entropy_metrics(heads.make_action_head(TORQUE, "SAC"), jnp.float32(-2))) == [
        "differential_entropy"
    ]


def test_scalars_survive_their_support():
    support = heads.make_support(limit=10.0, bins=21)
    values = np.float32([-10.0, -1.5, 0.0, 0.3, 10.0])

    @jax.jit
    def found(values):
        categories = support.apply(values)
        return support.apply_inv(categories), heads.expectation(support, jnp.log(categories + 1e-9))

    for back in found(values):
        np.testing.assert_allclose(back, values, atol=1e-2)


def test_layers_of_values():
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    scalar = hk.without_apply_rng(hk.transform(lambda x: heads.scalar_head(x, "value")))
    params = jax.device_get(jax.jit(scalar.init)(jax.random.PRNGKey(0), x))
    np.testing.assert_allclose(jax.jit(scalar.apply)(params, x), x @ params["value"]["w"][:, 0], rtol=1e-5)
    dense = hk.without_apply_rng(hk.transform(lambda x: heads.dense_head(x, 7, 6, "policy")))
    params = jax.jit(dense.init)(jax.random.PRNGKey(0), x)
    assert params["policy_0"]["w"].shape == (5, 6) and params["policy_out"]["w"].shape == (6, 7)
    np.testing.assert_array_equal(jax.jit(dense.apply)(params, x), np.zeros((4, 7)))
