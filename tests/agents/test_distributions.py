"""Distributions over actions against numbers by hand, other libraries, and slopes of distribution functions."""

from __future__ import annotations

import distrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from boonta.agents import distributions
from boonta.agents.distributions import EDGE

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

P = np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]], np.float32)
CASES = [(0.3, 0.5), (-1.0, 1.0), (2.5, 0.1), (0.0, 3.0), (-4.0, 0.05)]  # Means and deviations before tanh.


def squashed(mean, deviation):
    return distributions.squashed_gaussian(jnp.array([mean]), jnp.array([deviation]))


@jax.jit  # Compiled once for all cases.
def squashed_log_prob(mean, deviation, action):
    return squashed(mean, deviation).log_prob(action)


def test_several_choices_are_the_product_of_each():
    logits = jnp.log(jnp.concatenate([P[0], P[1][:2]])) + 3.0
    policy = distributions.multi_categorical(logits, (3, 2))
    second = P[1][:2] / P[1][:2].sum()
    np.testing.assert_allclose(policy.log_prob(jnp.array([1, 0])), np.log(0.25 * second[0]), rtol=1e-5)
    np.testing.assert_allclose(policy.entropy(), stats.entropy(P[0]) + stats.entropy(second), rtol=1e-5)
    assert policy.mode().tolist() == [0, 1]
    many = distributions.multi_categorical(jnp.tile(logits, (4000, 1)), (3, 2))
    action, log_prob = many.sample_and_log_prob(jax.random.PRNGKey(0))
    assert action.shape == (4000, 2) and action.dtype == jnp.int32
    np.testing.assert_array_equal(log_prob, many.log_prob(action))
    np.testing.assert_allclose(np.bincount(action[:, 0], minlength=3) / 4000, P[0], atol=0.03)
    np.testing.assert_allclose(np.bincount(action[:, 1], minlength=3) / 4000, [*second, 0], atol=0.03)
    gradient = jax.grad(lambda x: distributions.multi_categorical(x, (3, 2)).entropy())(logits)
    assert np.isfinite(gradient).all()


def test_a_plain_gaussian_is_scipys():
    mean, deviation = jnp.array([0.3, -1.0]), jnp.array([0.5, 2.0])
    policy = distributions.gaussian(mean, deviation)
    x = jnp.array([0.1, 1.5])
    np.testing.assert_allclose(policy.log_prob(x), stats.norm.logpdf(x, mean, deviation).sum(), rtol=1e-6)
    np.testing.assert_allclose(policy.entropy(), stats.norm.entropy(mean, deviation).sum(), rtol=1e-6)
    action, log_prob = policy.sample_and_log_prob(jax.random.PRNGKey(0))
    np.testing.assert_array_equal(log_prob, policy.log_prob(action))
    np.testing.assert_array_equal(policy.mode(), mean)


@jax.jit
def ours_sampled(mean, deviation):
    return jax.vmap(squashed(mean, deviation).sample_and_log_prob)(jax.random.split(jax.random.PRNGKey(0), 200))


@jax.jit
def distraxs_sampled(mean, deviation):
    base = distrax.Normal(jnp.array([mean]), jnp.array([deviation]))
    theirs = distrax.Transformed(distrax.Independent(base, 1), distrax.Block(distrax.Tanh(), 1))
    keys = jax.random.split(jax.random.PRNGKey(0), 200)
    return jax.vmap(lambda key: theirs.sample_and_log_prob(seed=key))(keys)


@pytest.mark.parametrize(("mean", "deviation"), CASES)
def test_a_squashed_samples_density_is_distraxs(mean, deviation):
    action, log_prob = jax.device_get(ours_sampled(mean, deviation))
    expected_action, expected = jax.device_get(distraxs_sampled(mean, deviation))
    np.testing.assert_allclose(action, expected_action, atol=1e-6)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-4)
    within = np.abs(action[:, 0]) < EDGE
    again = np.asarray(squashed_log_prob(mean, deviation, action))
    np.testing.assert_allclose(again[within], log_prob[within], atol=0.02)  # The action is rounded to float32.


@pytest.mark.parametrize(("mean", "deviation"), CASES)
def test_a_squashed_density_is_the_slope_of_its_distribution_function(mean, deviation):
    """Also in the last thousandth before a bound, where it is the mean slope; computed in float64 by scipy."""

    def cdf(action):
        return stats.norm.cdf(np.arctanh(action), mean, deviation)

    step = 1e-6
    action = np.concatenate([np.linspace(-0.998, 0.998, 101), [-0.9985, 0.9985]])
    slope = (cdf(action + step) - cdf(action - step)) / (2 * step)
    density = np.exp(squashed_log_prob(mean, deviation, np.float32(action)[:, None]))
    np.testing.assert_allclose(density, slope, rtol=0.02, atol=1e-3)
    for bound in (-1.0, 1.0):
        beyond = cdf(-EDGE) if bound < 0 else stats.norm.sf(np.arctanh(EDGE), mean, deviation)
        for inside in (bound, bound * 0.99901, bound * np.nextafter(np.float32(1), np.float32(0))):
            density = np.exp(squashed_log_prob(mean, deviation, np.float32([inside])))
            np.testing.assert_allclose(density, beyond / (1 - EDGE), rtol=1e-2, atol=1e-6)


@pytest.mark.parametrize(("mean", "deviation"), CASES)
def test_a_squashed_density_integrates_to_one(mean, deviation):
    x = np.linspace(np.arctanh(-EDGE), np.arctanh(EDGE), 40_001)  # Finer where the action is near a bound.
    action = np.tanh(x)
    density = np.exp(squashed_log_prob(mean, deviation, np.float32(action)[1:-1, None]))
    ends = np.exp(squashed_log_prob(mean, deviation, np.float32([[-1], [1]]))) * (1 - EDGE)
    assert integrate.trapezoid(density, action[1:-1]) + ends.sum() == pytest.approx(1, abs=2e-3)


def test_density_and_gradient_are_finite_at_the_bounds_whatever_the_parameters():
    action, mean, deviation = (
        np.float32(x.reshape(-1, 1))
        for x in np.meshgrid([-1.0, -EDGE, 0.0, EDGE, 1.0], [-30.0, 0.0, 30.0], [0.0067, 1.0, 7.4])
    )

    def total(mean, deviation):
        log_prob = distributions.squashed_gaussian(mean, deviation).log_prob(action)
        return log_prob.sum(), log_prob

    slopes, log_prob = jax.device_get(jax.jit(jax.grad(total, argnums=(0, 1), has_aux=True))(mean, deviation))
    assert np.isfinite(log_prob).all() and np.isfinite(slopes[0]).all() and np.isfinite(slopes[1]).all()
    sampled = lambda mean: squashed(mean, 1.0).sample_and_log_prob(jax.random.PRNGKey(0))[1]  # noqa: E731
    far = jax.jit(jax.value_and_grad(sampled))(40.0)
    assert far[0] > 70 and float(far[1]) == pytest.approx(2)  # Out there the log of tanh's slope falls by 2x.


@jax.jit
def squashed_entropy(mean, deviation):
    return squashed(mean, deviation).entropy()


@pytest.mark.parametrize(("mean", "deviation"), CASES)
def test_a_squashed_entropy_is_the_mean_over_many_samples(mean, deviation):
    x = mean + deviation * np.random.default_rng(0).normal(size=400_000)
    log_density = stats.norm.logpdf(x, mean, deviation) - 2 * (np.log(2) - x - np.logaddexp(0, -2 * x))
    assert float(squashed_entropy(mean, deviation)) == pytest.approx(-log_density.mean(), abs=0.02)


def test_no_policy_is_more_random_than_the_uniform_one():
    deviations = np.linspace(0.1, 2.0, 50, dtype=np.float32)
    entropies = np.asarray(jax.jit(jax.vmap(lambda s: squashed(0.0, s).entropy()))(deviations))
    assert float(entropies.max()) == pytest.approx(np.log(2), abs=0.01)  # The box from -1 to 1 is 2 wide.
    assert (entropies < np.log(2)).all()


def test_samples_have_a_gradient_to_their_parameters():
    key = jax.random.PRNGKey(1)
    noise = float(np.asarray(jax.random.normal(key, (1,)))[0])
    slope = jax.jit(jax.grad(lambda s: squashed(0.2, s).sample(key)[0]))(0.5)
    assert float(slope) == pytest.approx((1 - np.tanh(0.2 + 0.5 * noise) ** 2) * noise, rel=1e-5)
