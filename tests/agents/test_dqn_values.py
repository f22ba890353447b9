"""Losses of values, categorical distributions and quantiles by hand, and by rlax's whole algorithms."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents import dqn
from boonta.agents.dqn.values import Target, expected, losses
from boonta.agents.light_rlax import rlax

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]
N, A = 5, 3
RNG = np.random.default_rng(0)


def config(distribution: str, **more) -> dqn.Config:
    return dqn.Config(distribution=distribution, **more)


def numbers(*shape):
    return RNG.normal(size=shape).astype(np.float32)


compiled_losses = jax.jit(losses, static_argnums=0)


def one(values, tau, reward, discount, next_values, settings):
    target = Target(np.float32([reward]), np.float32([discount]), np.float32([next_values]))
    loss, error = jax.device_get(compiled_losses(settings, np.float32([values]), np.float32([tau]), target))
    return float(loss[0]), float(error[0])


def test_a_plain_value_by_hand():
    assert one([2.0], [0], 1.0, 0.5, [3.0], config("none")) == pytest.approx((0.125, 0.5))
    assert one([2.0], [0], 1.0, 0.0, [3.0], config("none")) == pytest.approx((0.5, 1.0))
    assert one([-1.0], [0], 1.0, 0.5, [3.0], config("none")) == pytest.approx((3.5 - 0.5, 3.5))  # Linear beyond 1.
    assert one([-1.0], [0], 1.0, 0.5, [3.0], config("none", huber=None)) == pytest.approx((3.5**2 / 2, 3.5))


def test_the_projection_by_hand():
    """Of the bins -1, 0, 1 the targets are 0.25, 0.5 and 0.75 for a reward of 0.5 and a discount of a quarter."""
    settings = config("categorical", support_bins=3, support_limit=1.0)
    p, next_p = np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.3, 0.1])
    wanted = np.array([0, 0.6 * 0.75 + 0.3 * 0.5 + 0.1 * 0.25, 0.6 * 0.25 + 0.3 * 0.5 + 0.1 * 0.75])
    cross_entropy = -np.sum(wanted * np.log(p))
    divergence = cross_entropy + np.sum(wanted[1:] * np.log(wanted[1:]))
    found = one(np.log(p), [0] * 3, 0.5, 0.25, np.log(next_p), settings)
    assert found == pytest.approx((cross_entropy, divergence), rel=1e-5)
    # What lies beyond the support counts as its end, and a terminated episode has the reward alone.
    assert one(np.log(p), [0] * 3, 9.0, 1.0, np.log(next_p), settings)[0] == pytest.approx(-np.log(0.5), rel=1e-5)
    loss, error = one(np.log(p), [0] * 3, 0.0, 0.0, np.log(next_p), settings)
    assert (loss, error) == pytest.approx((-np.log(0.3), -np.log(0.3)), rel=1e-5)
    assert float(expected(settings, jnp.log(jnp.array(p)))) == pytest.approx(0.3)


def test_quantiles_by_hand():
    """The errors of the quantiles 0 and 4 against the targets 1 and 2 are 1 and 2, and -3 and -2."""
    settings = config("quantile", quantiles=2, huber=1.0)
    huber = {1: 0.5, 2: 1.5, -3: 2.5, -2: 1.5}
    wanted = 0.25 * (huber[1] + huber[2]) / 2 + 0.25 * (huber[-3] + huber[-2]) / 2
    loss, error = one([0.0, 4.0], [0.25, 0.75], 1.0, 0.5, [0.0, 2.0], settings)
    assert loss == pytest.approx(wanted) and error == pytest.approx(wanted / 2)
    settings = config("quantile", quantiles=2, huber=0.5)  # Over kappa it is |error| - kappa / 2.
    wanted = 0.25 * (0.75 + 1.75) / 2 + 0.25 * (2.75 + 1.75) / 2
    assert one([0.0, 4.0], [0.25, 0.75], 1.0, 0.5, [0.0, 2.0], settings)[0] == pytest.approx(wanted)
    settings = config("quantile", quantiles=2, huber=None)
    wanted = 0.25 * 1.5 + 0.25 * 2.5
    assert one([0.0, 4.0], [0.25, 0.75], 1.0, 0.5, [0.0, 2.0], settings)[0] == pytest.approx(wanted)
    assert float(expected(settings, jnp.array([1.0, 4.0]))) == 2.5


@pytest.mark.parametrize("distribution", ["none", "categorical", "quantile"])
def test_as_rlax_computes_them(distribution):
    """Double Q-learning: the selector's best action is valued by another network."""
    settings = config(distribution, support_bins=7, support_limit=2.0, quantiles=4)
    z = settings.numbers
    values, next_values, chooser = (numbers(N, A, z) for _ in range(3))
    action, reward = np.array([0, 1, 2, 1, 0], np.int32), numbers(N)
    discount, tau = np.float32([0.9, 0, 0.9, 0.5, 0.9]), np.tile(np.float32((np.arange(z) + 0.5) / z), (N, 1))
    selector, rows = np.asarray(jax.jit(functools.partial(expected, settings))(chooser)), np.arange(N)
    target = Target(reward, discount, next_values[rows, np.argmax(selector, axis=-1)])
    loss, _ = compiled_losses(settings, values[rows, action], tau, target)

    @jax.jit
    @jax.vmap
    def theirs(values, tau, action, reward, discount, chooser, next_values, selector):
        if distribution == "none":
            error = rlax.double_q_learning(values[:, 0], action, reward, discount, next_values[:, 0], selector)
            return rlax.huber_loss(error, 1.0)
        if distribution == "categorical":
            atoms = jnp.linspace(-2, 2, z)
            return rlax.categorical_double_q_learning(
                atoms, values, action, reward, discount, atoms, next_values, selector
            )
        return rlax.quantile_q_learning(values.T, tau, action, reward, discount, chooser.T, next_values.T, 1.0)

    wanted = theirs(values, tau, action, reward, discount, chooser, next_values, selector)
    np.testing.assert_allclose(loss, wanted, rtol=1e-4, atol=1e-6)


def test_no_gradient_flows_to_targets():
    def loss(next_values):
        target = Target(jnp.zeros(1), jnp.ones(1), next_values)
        return losses(config("quantile", quantiles=2), jnp.ones((1, 2)), jnp.full((1, 2), 0.5), target)[0][0]

    assert not np.any(jax.jit(jax.grad(loss))(np.float32([[1, 2]])))


def test_settings_that_can_not_be_are_refused():
    for wrong, words in (
        ({"quantiles": 0}, r"dqn.Config: quantiles is 0; it must be at least 1"),
        ({"support_limit": 0.0}, r"support_limit is 0.0; it must be above 0"),
        ({"bootstrap_length": 0}, r"bootstrap_length is 0; it must be at least 1"),
        ({"discount": 0.0}, r"discount is 0.0; it must be in \[-1, 1\], and not 0"),
    ):
        with pytest.raises(ValueError, match=words):
            dataclasses.replace(dqn.CATCH, **wrong)
