"""Reanalyze within the update: a search with the target network renews old steps' targets, without nodes for it.

See MuZero Reanalyze, Appendix H of "Mastering Atari, Go, Chess and Shogi by Planning with a Learned Model"
(https://arxiv.org/abs/1911.08265), and "Mastering Atari Games with Limited Data" (EfficientZero,
https://arxiv.org/abs/2111.00210), Appendix A.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from boonta.agents.base import Nest, Steps
from boonta.agents.muzero.config import Config
from boonta.agents.muzero.policy import Extras
from boonta.agents.muzero.search import Search
from boonta.agents.views import legal_of


def reanalyze(params: Nest, key: jax.Array, stack: Nest, steps: Steps, *, search: Search, config: Config) -> Steps:
    """Replaces the policies and values of a share of the sequences by those of a new search.

    Only rows whose result is learned from are searched: those that windows reach, or all if values bootstrap from the
    search's values. Which sequences are searched is drawn anew each time, since a batch may be sorted by where its
    sequences were kept; they are spread over the batch, and so over the devices that share it.

    Args:
      params: params of the target network.
      key: PRNG key, consumed.
      stack: nest [M, B, ..., L], what the network sees in each row.
      steps: leaves [M, B, ...], context dropped.
      search: the actors' search; its noise is that of their first slot.
      config: hyper-parameters; they have the ratio, and which values are learned from.

    Returns:
      Steps with other extras.
    """
    num_rows, batch_size = steps.reward.shape
    count = max(1, round(config.reanalyze_ratio * batch_size))
    rows = num_rows if config.value_target == "search" else config.roots + config.unroll_length
    groups = math.gcd(count, batch_size)
    key, choice_key = jax.random.split(key)
    chosen = jax.random.permutation(choice_key, batch_size // groups)[: count // groups]  # Of each group.

    def grouped(x: jax.Array) -> jax.Array:
        """[M, B, ...] -> [G, M, B / G, ...]; the part [:, :rows, chosen] is searched."""
        return jnp.swapaxes(x.reshape(num_rows, groups, -1, *x.shape[2:]), 0, 1)

    def fold(x: jax.Array) -> jax.Array:
        """[M, B, ...] -> [rows * count, ...]."""
        return grouped(x)[:, :rows, chosen].reshape(-1, *x.shape[2:])

    def renew(old: jax.Array, new: jax.Array) -> jax.Array:
        """Puts [rows * count, ...] back where `fold` took it from."""
        new = new.reshape(groups, rows, -1, *old.shape[2:])
        renewed = grouped(old).at[:, :rows, chosen].set(new)
        return jnp.swapaxes(renewed, 0, 1).reshape(old.shape)

    legal = legal_of(steps.observation, (*steps.reward.shape, steps.extras.policy.shape[-1]))
    planned = search(params, key, jax.tree.map(fold, stack), fold(legal))
    extras = Extras(renew(steps.extras.policy, planned.policy), renew(steps.extras.value, planned.value))
    return steps._replace(extras=jax.lax.stop_gradient(extras))
