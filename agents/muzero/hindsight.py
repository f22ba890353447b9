"""The model's predictions along recorded steps, beside the actual outcomes; for pictures, not for learning."""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from boonta.agents.base import Nest, Steps
from boonta.agents.heads import expectation, make_support
from boonta.agents.muzero.config import Config
from boonta.agents.muzero.history import recall
from boonta.agents.muzero.loss import unroll_model
from boonta.agents.muzero.networks import Model
from boonta.agents.returns import value_targets


class Hindsight(NamedTuple):
    """Predictions for M rows; entry [t, k] is about row t+k, predicted from row t by k model steps.

    Where row t+k belongs to another episode than row t, or to none, the entry means nothing.

    Attributes:
      hidden: float32 [M, K+1, D], hidden states, flat.
      value: float32 [M, K+1], the network's values.
      reward: float32 [M, K]; entry [t, k] is the reward of the step into row t+k+1.
      returns: float32 [M], the actual values: the rewards until the episode's end, discounted by the agent. Where the
        rows stop before the end, the network's value replaces the rest.
    """

    hidden: jax.Array
    value: jax.Array
    reward: jax.Array
    returns: jax.Array


def look_back(params: Nest, steps: Steps, *, model: Model, config: Config) -> Hindsight:
    """Unrolls the model along the recorded actions from every row, as far as in learning.

    Args:
      params: params of `model`.
      steps: steps of one slot, leaves [M, 1, ...], starting with FIRST; extras have a `policy` [M, 1, A].
      model: the model, from `make_model`.
      config: hyper-parameters; `unroll_length` is K.
    """
    chex.assert_rank(steps.reward, 2)
    num_rows, num_ahead = steps.reward.shape[0], config.unroll_length

    def extend(x: jax.Array) -> jax.Array:
        """[M, 1, ...] -> [context+M+K, 1, ...]; no stack uses the context, because an episode starts after it."""
        return jnp.pad(x, ((config.context, num_ahead), *((0, 0),) * (x.ndim - 1)), mode="edge")

    stack, later = recall(config, jax.tree.map(extend, steps._replace(extras=())))  # [M+K, 1, ...]
    action = jnp.stack([later.action[k : k + num_rows, 0] for k in range(num_ahead)], axis=1)  # [M, K]
    unroll = unroll_model(params, stack, action, model, steps.extras.policy.shape[-1])
    support = make_support(config.support_limit, config.support_bins)
    value, reward = (expectation(support, logits) for logits in (unroll.value, unroll.reward))
    returns = value_targets(steps, value[:, :1], config.discount, num_rows, 1.0)[:, 0]
    return Hindsight(unroll.hidden.reshape(num_rows, num_ahead + 1, -1), value, reward, returns)
