"""Exploration: actions that aren't the best ones known."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from boonta.agents.heads import ILLEGAL, mask_illegal


def random_actions(key: jax.Array, action: jax.Array, legal: jax.Array, share: float | jax.Array) -> jax.Array:
    """Replaces a share of actions by random ones.

    Args:
      key: PRNG key, consumed.
      action: int32 [B].
      legal: bool [B, A], the actions that random ones are drawn from.
      share: share in [0, 1], one for all slots or float32 [B].

    Returns:
      int32 [B].
    """
    choice_key, stray_key = jax.random.split(key)
    random = jax.random.categorical(choice_key, jnp.where(legal, 0.0, -jnp.inf)).astype(jnp.int32)
    return jnp.where(jax.random.bernoulli(stray_key, share, action.shape), random, action)


def epsilon_greedy(key: jax.Array, values: jax.Array, legal: jax.Array, epsilon: float | jax.Array) -> jax.Array:
    """The legal action of the highest value, or with probability epsilon any legal one.

    Args:
      key: PRNG key, consumed.
      values: float32 [B, A].
      legal: bool [B, A].
      epsilon: probability in [0, 1], one for all slots or float32 [B].

    Returns:
      int32 [B].
    """
    greedy = jnp.argmax(mask_illegal(values, legal), axis=-1).astype(jnp.int32)
    return random_actions(key, greedy, legal, epsilon)


def epsilon_ladder(slots: int, epsilon: float = 0.4, alpha: float = 7.0) -> jax.Array:
    """An epsilon for each slot, from the largest to the smallest: epsilon ** (1 + alpha * i / (slots - 1)).

    See "Distributed Prioritized Experience Replay" (Ape-X, https://arxiv.org/abs/1803.00933), section 4.1.

    Args:
      slots: number of slots of all actors together.
      epsilon: the first slot's epsilon.
      alpha: the last slot's epsilon is epsilon ** (1 + alpha).

    Returns:
      float32 [slots].
    """
    return epsilon ** (1 + alpha * jnp.arange(slots) / max(slots - 1, 1))


def tempered(logits: jax.Array, temperature: jax.Array | float) -> jax.Array:
    """Logits [..., A] of p ** (1 / temperature), normalised; at temperature 0 the likeliest action alone is left.

    Args:
      logits: float32 [..., A].
      temperature: a number of at least 0; it may be traced.
    """
    best = logits == jnp.max(logits, axis=-1, keepdims=True)
    cold = jnp.asarray(temperature) == 0
    return jnp.where(cold, jnp.where(best, 0.0, ILLEGAL), logits / jnp.where(cold, 1.0, temperature))
