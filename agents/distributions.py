"""Distributions over actions: of one choice, of several choices, and of real numbers.

Real numbers are scaled: a box's bounds are -1 and 1, see `heads.Box`. Densities are per scaled unit, so that entropies
of different envs compare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

ILLEGAL = -1e9  # Logit of an illegal action: finite, so that its entropy and gradient are 0 rather than NaN.

# Float32 holds a squashed action this far out to a pre-image that is right to 3e-5; nearer to 1 it is soon infinite.
EDGE = 0.999
ENTROPY_NODES = 32  # Entropies are right to 2e-4 nats for deviations up to 2, and to 0.1 up to 7.4.


class Distribution(NamedTuple):
    """Distributions [...] over actions.

    Attributes:
      sample: `(key) -> action [...]`; of real numbers, with a gradient to the parameters.
      mode: `() -> action [...]`, the likeliest; of a squashed Gaussian the squashed mean.
      log_prob: `(action [...]) -> float32 [...]`, the log-probability, or log-density of real numbers.
      entropy: `() -> float32 [...]`, in nats; of real numbers it may be negative.
      sample_and_log_prob: `(key) -> (action [...], float32 [...])`, the log-density by the sample's exact pre-image.
    """

    sample: Callable[[jax.Array], jax.Array]
    mode: Callable[[], jax.Array]
    log_prob: Callable[[jax.Array], jax.Array]
    entropy: Callable[[], jax.Array]
    sample_and_log_prob: Callable[[jax.Array], tuple[jax.Array, jax.Array]]


def categorical(logits: jax.Array) -> Distribution:
    """One of A actions, int32 [...], from logits [..., A]."""
    log_pi = jax.nn.log_softmax(logits)

    def sample(key: jax.Array) -> jax.Array:
        return jax.random.categorical(key, logits).astype(jnp.int32)

    def mode() -> jax.Array:
        return jnp.argmax(logits, axis=-1).astype(jnp.int32)

    def log_prob(action: jax.Array) -> jax.Array:
        return jnp.take_along_axis(log_pi, action[..., None], axis=-1)[..., 0]

    def entropy() -> jax.Array:
        return -jnp.sum(jnp.exp(log_pi) * log_pi, axis=-1)

    return Distribution(sample, mode, log_prob, entropy, _then_log_prob(sample, log_prob))


def multi_categorical(logits: jax.Array, sizes: Sequence[int]) -> Distribution:
    """Several independent choices at once, int32 [..., C].

    Args:
      logits: float32 [..., sum(sizes)], those of the first choice first.
      sizes: the number of values of each choice.
    """
    ends = np.cumsum(sizes)
    # Shorter choices are padded with illegal values, so that all are drawn at once.
    index = (ends - sizes)[:, None] + np.arange(max(sizes))  # [C, most values]
    legal = index < ends[:, None]
    each = categorical(jnp.where(legal, logits[..., np.where(legal, index, 0)], ILLEGAL))

    def log_prob(action: jax.Array) -> jax.Array:
        return jnp.sum(each.log_prob(action), axis=-1)

    def entropy() -> jax.Array:
        return jnp.sum(each.entropy(), axis=-1)

    return Distribution(each.sample, each.mode, log_prob, entropy, _then_log_prob(each.sample, log_prob))


def gaussian(mean: jax.Array, deviation: jax.Array) -> Distribution:
    """Independent Gaussians over all reals [..., D]; an env clips what is out of its bounds.

    Args:
      mean: float32 [..., D].
      deviation: standard deviations, float32 [..., D].
    """

    def sample(key: jax.Array) -> jax.Array:
        return mean + deviation * jax.random.normal(key, mean.shape)

    def log_prob(action: jax.Array) -> jax.Array:
        return jnp.sum(norm.logpdf(action, mean, deviation), axis=-1)

    def entropy() -> jax.Array:
        return jnp.sum(0.5 * math.log(2 * math.pi * math.e) + jnp.log(deviation), axis=-1)

    return Distribution(sample, lambda: mean, log_prob, entropy, _then_log_prob(sample, log_prob))


def squashed_gaussian(mean: jax.Array, deviation: jax.Array) -> Distribution:
    """Independent Gaussians squashed by tanh into (-1, 1), [..., D].

    See "Soft Actor-Critic: Off-Policy Maximum Entropy Deep Reinforcement Learning with a Stochastic Actor"
    (https://arxiv.org/abs/1801.01290), Appendix C.

    A stored action at a bound has no finite pre-image. So `log_prob` takes all that is beyond `EDGE` as one: its
    density is the Gaussian's mass there over the width that is left, and the whole still integrates to 1.

    Args:
      mean: float32 [..., D], before tanh.
      deviation: standard deviations before tanh, float32 [..., D].
    """
    inner = gaussian(mean, deviation)

    def sample_and_log_prob(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = inner.sample(key)
        return jnp.tanh(x), inner.log_prob(x) - jnp.sum(log_slope(x), axis=-1)

    def log_prob(action: jax.Array) -> jax.Array:
        x, end = jnp.arctanh(jnp.clip(action, -EDGE, EDGE)), math.atanh(EDGE)
        within = norm.logpdf(x, mean, deviation) - log_slope(x)
        above = norm.logcdf(-end, -mean, deviation) - math.log(1 - EDGE)
        below = norm.logcdf(-end, mean, deviation) - math.log(1 - EDGE)
        return jnp.sum(jnp.where(action >= EDGE, above, jnp.where(action <= -EDGE, below, within)), axis=-1)

    def entropy() -> jax.Array:
        # The Gaussian's, plus the expected log of the slope by Gauss-Hermite quadrature.
        nodes, weights = np.polynomial.hermite_e.hermegauss(ENTROPY_NODES)
        x = mean[..., None] + deviation[..., None] * nodes.astype(np.float32)
        expected = jnp.sum(log_slope(x) * (weights / weights.sum()).astype(np.float32), axis=-1)
        return inner.entropy() + jnp.sum(expected, axis=-1)

    return Distribution(
        sample=lambda key: jnp.tanh(inner.sample(key)),
        mode=lambda: jnp.tanh(mean),
        log_prob=log_prob,
        entropy=entropy,
        sample_and_log_prob=sample_and_log_prob,
    )


def log_slope(x: jax.Array) -> jax.Array:
    """The log of tanh's derivative, log(1 - tanh(x)^2), which stays right where tanh rounds to 1."""
    return 2 * (math.log(2) - x - jax.nn.softplus(-2 * x))


def _then_log_prob(
    sample: Callable[[jax.Array], jax.Array], log_prob: Callable[[jax.Array], jax.Array]
) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    def sample_and_log_prob(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        action = sample(key)
        return action, log_prob(action)

    return sample_and_log_prob
