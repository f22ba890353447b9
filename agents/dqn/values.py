"""Action values as numbers, categorical distributions or quantiles: their means, and their losses against targets.

Glossary of shapes: N rows, A actions, Z numbers for each action.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from boonta.agents.dqn.config import Config
from boonta.agents.light_rlax import rlax


class Target(NamedTuple):
    """What the value of an action is to be: reward + discount * the value of the next state's action.

    Attributes:
      reward: float32 [N].
      discount: float32 [N].
      values: float32 [N, Z], the next action's value as the network outputs it.
    """

    reward: jax.Array
    discount: jax.Array
    values: jax.Array


def atoms(config: Config) -> jax.Array:
    """The values of the bins of a categorical distribution, float32 [Z]."""
    return jnp.linspace(-config.support_limit, config.support_limit, config.support_bins)


def expected(config: Config, values: jax.Array) -> jax.Array:
    """The means of outputs [..., Z]: float32 [...]."""
    if config.distribution == "categorical":
        return jax.nn.softmax(values) @ atoms(config)
    return jnp.mean(values, axis=-1)  # Of one number, or of quantiles.


def losses(config: Config, values: jax.Array, tau: jax.Array, target: Target) -> tuple[jax.Array, jax.Array]:
    """The losses of actions' values, and the errors by which their sequences are drawn.

    Args:
      config: hyper-parameters.
      values: float32 [N, Z], of the actions taken.
      tau: float32 [N, Z], as in `networks.Outputs`.
      target: not differentiated.

    Returns:
      float32 [N], float32 [N] at least 0.
    """
    one = {"none": _plain, "categorical": _categorical, "quantile": _quantile, "implicit": _quantile}
    target = jax.tree.map(jax.lax.stop_gradient, target)
    loss, error = jax.vmap(lambda *row: one[config.distribution](config, *row))(values, tau, target)
    return loss, jax.lax.stop_gradient(error)


def _plain(config: Config, values: jax.Array, tau: jax.Array, target: Target) -> tuple[Any, Any]:
    """Half the squared error, linear beyond `huber`; see "Human-level control through deep reinforcement learning"."""
    del tau
    error = target.reward + target.discount * target.values[0] - values[0]
    loss = rlax.l2_loss(error) if config.huber is None else rlax.huber_loss(error, config.huber)
    return loss, jnp.abs(error)


def _categorical(config: Config, values: jax.Array, tau: jax.Array, target: Target) -> tuple[Any, Any]:
    """Cross-entropy with the projected target; the error is the KL divergence, as Rainbow has it.

    See "A Distributional Perspective on Reinforcement Learning" (https://arxiv.org/abs/1707.06887), Algorithm 1.
    """
    del tau
    support, log_p = atoms(config), jax.nn.log_softmax(values)
    moved = target.reward + target.discount * support
    wanted = rlax.categorical_l2_project(moved, jax.nn.softmax(target.values), support)  # [Z]
    cross_entropy = -jnp.sum(wanted * log_p)
    return cross_entropy, jnp.maximum(cross_entropy - jnp.sum(jax.scipy.special.entr(wanted)), 0.0)


def _quantile(config: Config, values: jax.Array, tau: jax.Array, target: Target) -> tuple[Any, Any]:
    """Quantile regression; see "Distributional Reinforcement Learning with Quantile Regression", Eq. 10.

    (https://arxiv.org/abs/1710.10044; of implicit quantiles https://arxiv.org/abs/1806.06923, Eq. 3.)
    The loss is the sum over quantiles, as there; the error is their mean, of which 1 is large whatever Z.
    """
    moved = target.reward + target.discount * target.values
    loss = rlax.quantile_regression_loss(values, tau, moved, config.huber or 0.0) / (config.huber or 1.0)
    return loss, loss / len(values)
