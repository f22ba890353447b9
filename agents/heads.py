"""Heads: a network's last layers, for actions and values.

An action head is a distribution over actions whose parameters the network outputs. An agent that uses only its
functions works with any action space that has a head.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
from dm_env import specs

from boonta.agents.encoders import perceptron
from boonta.agents.rlax_first import rlax

ILLEGAL = -1e9  # Logit of an illegal action: finite, so that its entropy and gradient are 0 rather than NaN.


class Distribution(NamedTuple):
    """Distributions [...] over actions.

    Attributes:
      sample: `(key) -> action [...]`.
      mode: `() -> action [...]`, the likeliest.
      log_prob: `(action [...]) -> float32 [...]`.
      entropy: `() -> float32 [...]`.
    """

    sample: Callable[[jax.Array], jax.Array]
    mode: Callable[[], jax.Array]
    log_prob: Callable[[jax.Array], jax.Array]
    entropy: Callable[[], jax.Array]


class ActionHead(NamedTuple):
    """The distribution over actions that a network's outputs parametrise.

    Attributes:
      size: P, the number of parameters that the network outputs.
      distribution: `(parameters [..., P]) -> distributions [...]`. A loss makes one and takes all it needs from it, so
        that common parts, such as the normalised logits, are computed and differentiated once.
    """

    size: int
    distribution: Callable[[jax.Array], Distribution]


def make_action_head(actions: specs.Array, agent: str) -> ActionHead:
    """The head for a space of actions.

    Args:
      actions: spec of an action.
      agent: the agent's name, for the message.

    Raises:
      ValueError: there is no head for it.
    """
    if not isinstance(actions, specs.DiscreteArray):
        raise ValueError(f"{agent} chooses among discrete actions; this environment takes {actions}")
    return categorical(actions.num_values)


def categorical(num_actions: int) -> ActionHead:
    """A head whose parameters are a logit for each action; actions are int32."""

    def distribution(logits: jax.Array) -> Distribution:
        log_pi = jax.nn.log_softmax(logits)

        def sample(key: jax.Array) -> jax.Array:
            return jax.random.categorical(key, logits).astype(jnp.int32)

        def mode() -> jax.Array:
            return jnp.argmax(logits, axis=-1).astype(jnp.int32)

        def log_prob(action: jax.Array) -> jax.Array:
            return jnp.take_along_axis(log_pi, action[..., None], axis=-1)[..., 0]

        def entropy() -> jax.Array:
            return -jnp.sum(jnp.exp(log_pi) * log_pi, axis=-1)

        return Distribution(sample, mode, log_prob, entropy)

    return ActionHead(num_actions, distribution)


def mask_illegal(logits: jax.Array, legal: jax.Array) -> jax.Array:
    """Logits [..., A] with those of illegal actions replaced, so that only legal ones, bool [..., A], are taken."""
    return jnp.where(legal, logits, ILLEGAL)


def scalar_head(x: jax.Array, name: str, w_init: hk.initializers.Initializer | None = None) -> jax.Array:
    """Features [..., D] to one number each, float32 [...]; a haiku function."""
    return hk.Linear(1, w_init=w_init, name=name)(x)[..., 0]


def dense_head(x: jax.Array, outputs: int, width: int, name: str) -> jax.Array:
    """Features [B, D] to [B, outputs] with a normalised layer between; a haiku function.

    Its output starts at 0, so that the noise of initialisation doesn't affect the first searches and actions.
    """
    x = perceptron(x, [width], name, normalised=True)
    return hk.Linear(outputs, w_init=jnp.zeros, name=f"{name}_out")(x)


def make_support(limit: float, bins: int) -> rlax.TxPair:
    """Scalars [...] to categories [..., Z] and back: the invertible transform, then two-hot.

    See "Mastering Atari, Go, Chess and Shogi by Planning with a Learned Model" (https://arxiv.org/abs/1911.08265),
    Appendix F; the transform's first source is "Observe and Look Further" (https://arxiv.org/abs/1805.11593),
    Proposition A.2.

    Args:
      limit: largest scalar that the categories reach.
      bins: Z.
    """
    end = math.sqrt(limit + 1) - 1 + 1e-3 * limit  # The transform, computed without a device.
    return rlax.muzero_pair(-end, end, bins, rlax.SIGNED_HYPERBOLIC_PAIR)


def expectation(support: rlax.TxPair, logits: jax.Array) -> jax.Array:
    """The expected scalars [...] under logits [..., Z] over the support."""
    return support.apply_inv(jax.nn.softmax(logits))
