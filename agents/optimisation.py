"""A loss and an optimiser make an `Update`; every agent that learns by gradient shares this file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from agents.base import Batch, Nest, Update

Optimiser = Literal["rmsprop", "adam"]

# `(params, key, batch) -> (loss [], (priorities [B] or None, metrics))`
Loss = Callable[[Nest, jax.Array, Batch], tuple[jax.Array, tuple[Any, dict[str, jax.Array]]]]


class LearnerState(NamedTuple):
    """All that learning remembers between updates; arrays only.

    Attributes:
      params: of the networks, as the policy acts with them.
      opt_state: of the optimiser.
      key: PRNG key, for losses that draw random numbers.
      updates: int32 [], made so far.
    """

    params: Nest
    opt_state: Nest
    key: jax.Array
    updates: jax.Array


def make_schedule(learning_rate: float, anneal_updates: int | None) -> optax.Schedule:
    """Learning rate by update: linear to zero over `anneal_updates`, or constant where that is None."""
    if anneal_updates is None:
        return optax.constant_schedule(learning_rate)
    return optax.linear_schedule(learning_rate, 0.0, anneal_updates)


def make_optimiser(
    name: Optimiser, schedule: optax.Schedule, eps: float, decay: float, max_grad_norm: float
) -> optax.GradientTransformation:
    """Clips the global norm of the gradient, then steps.

    Args:
      name: "rmsprop" or "adam".
      schedule: learning rate by update.
      eps: RMSProp adds it under the root, as TensorFlow does; Adam outside.
      decay: of RMSProp's mean square; Adam keeps its usual 0.9 and 0.999.
      max_grad_norm: longer gradients are scaled down to it.

    Raises:
      ValueError: no such optimiser.
    """
    clip = optax.clip_by_global_norm(max_grad_norm)
    if name == "rmsprop":
        # The mean square starts at 1, as in the TensorFlow optimiser that published settings were tuned with: from 0
        # the first steps would be up to 1 / sqrt(1 - decay) times too long.
        return optax.chain(clip, optax.rmsprop(schedule, decay=decay, eps=eps, initial_scale=1.0))
    if name == "adam":
        return optax.chain(clip, optax.adam(schedule, eps=eps))
    raise ValueError(f"optimiser is {name!r}; allowed: 'rmsprop', 'adam'")


def make_update(
    init_params: Callable[[jax.Array], Nest],
    loss: Loss,
    optimiser: optax.GradientTransformation,
    schedule: optax.Schedule,
) -> Update:
    """Gradient descent on a loss.

    The batch may be sharded over a mesh with the state replicated: under one `jit` sums over the batch axis are global,
    and XLA adds the collectives. The state may be donated.

    Args:
      init_params: `(key) -> params`.
      loss: sums or means over the whole batch; its metrics are scalars.
      optimiser: turns gradients into steps.
      schedule: the learning rate, for the metrics only.

    Returns:
      `Update`; to the loss's metrics it adds "loss", "grad_norm" (before clipping) and "learning_rate".
    """

    def init(key: jax.Array) -> LearnerState:
        key, init_key = jax.random.split(key)
        params = init_params(init_key)
        return LearnerState(params, optimiser.init(params), key, jnp.zeros((), jnp.int32))

    def step(state: LearnerState, batch: Batch) -> tuple[LearnerState, Any, dict[str, jax.Array]]:
        key, loss_key = jax.random.split(state.key)
        grad = jax.value_and_grad(loss, has_aux=True)
        (value, (priorities, metrics)), gradient = grad(state.params, loss_key, batch)
        change, opt_state = optimiser.update(gradient, state.opt_state, state.params)
        params = optax.apply_updates(state.params, change)
        metrics = metrics | {
            "loss": value,
            "grad_norm": optax.global_norm(gradient),
            "learning_rate": jnp.asarray(schedule(state.updates), jnp.float32),
        }
        return LearnerState(params, opt_state, key, state.updates + 1), priorities, metrics

    return Update(init=init, step=step, params=lambda state: state.params)
