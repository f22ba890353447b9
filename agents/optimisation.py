"""A loss and an optimiser make an `Update`; every agent that learns by gradient shares this file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from boonta.agents.base import Batch, Nest, Update

Optimiser = Literal["rmsprop", "adam"]


class Context(NamedTuple):
    """What a loss may know besides the params it is differentiated by.

    Attributes:
      target_params: an older copy of the params, or () for agents that keep none.
      key: PRNG key of this update.
      updates: int32 [], made before this one.
    """

    target_params: Nest
    key: jax.Array
    updates: jax.Array


# `(params, context, batch) -> (loss [], (priorities [B] or None, metrics))`
Loss = Callable[[Nest, Context, Batch], tuple[jax.Array, tuple[Any, dict[str, jax.Array]]]]


class LearnerState(NamedTuple):
    """All that learning remembers between updates; arrays only.

    Attributes:
      params: of the networks, as the policy acts with them.
      target_params: an older copy of them, or () for agents that keep none.
      opt_state: of the optimiser.
      key: PRNG key, for losses that draw random numbers.
      updates: int32 [], made so far.
    """

    params: Nest
    target_params: Nest
    opt_state: Nest
    key: jax.Array
    updates: jax.Array


def make_schedule(learning_rate: float, anneal_updates: int | None) -> optax.Schedule:
    """Learning rate by update: linear to zero over `anneal_updates`, or constant where that is None."""
    if anneal_updates is None:
        return optax.constant_schedule(learning_rate)
    return optax.linear_schedule(learning_rate, 0.0, anneal_updates)


def make_optimiser(
    name: Optimiser,
    schedule: optax.Schedule,
    eps: float,
    max_grad_norm: float,
    decay: float = 0.99,
    weight_decay: float = 0.0,
) -> optax.GradientTransformation:
    """Clips the global norm of the gradient, then steps.

    Args:
      name: "rmsprop" or "adam".
      schedule: learning rate by update.
      eps: RMSProp adds it under the root, as TensorFlow does; Adam outside.
      max_grad_norm: longer gradients are scaled down to it.
      decay: of RMSProp's mean square; Adam keeps its usual 0.9 and 0.999.
      weight_decay: of Adam, decoupled from the gradient: each step also takes this share, times the learning rate, off
        every weight of rank 2 and more; biases and normalisations keep theirs. See "Decoupled Weight Decay
        Regularization" (https://arxiv.org/abs/1711.05101).

    Raises:
      ValueError: no such optimiser.
    """
    clip = optax.clip_by_global_norm(max_grad_norm)
    if name == "rmsprop":
        # The mean square starts at 1, as in the TensorFlow optimiser that published settings were tuned with: from 0
        # the first steps would be up to 1 / sqrt(1 - decay) times too long.
        return optax.chain(clip, optax.rmsprop(schedule, decay=decay, eps=eps, initial_scale=1.0))
    if name == "adam":
        # With nothing under the root the gradient through a step, which `agents.meta` takes, would be NaN wherever a
        # weight has had no gradient yet.
        adam = optax.adamw(schedule, eps=eps, eps_root=1e-16, weight_decay=weight_decay, mask=_is_weight)
        return optax.chain(clip, adam)
    raise ValueError(f"optimiser is {name!r}; allowed: 'rmsprop', 'adam'")


def make_update(
    init_params: Callable[[jax.Array], Nest],
    loss: Loss,
    optimiser: optax.GradientTransformation,
    schedule: optax.Schedule,
    target_period: int | None = None,
) -> Update:
    """Gradient descent on a loss.

    The batch may be sharded over a mesh with the state replicated: under one `jit` sums over the batch axis are global,
    and XLA adds the collectives. The state may be donated.

    Args:
      init_params: `(key) -> params`.
      loss: sums or means over the whole batch; its metrics are scalars.
      optimiser: turns gradients into steps.
      schedule: the learning rate, for the metrics only.
      target_period: updates between copies of the params to `Context.target_params`; None keeps no copy.

    Returns:
      `Update`; to the loss's metrics it adds "loss", "grad_norm" (before clipping) and "learning_rate".
    """

    def init(key: jax.Array) -> LearnerState:
        key, init_key = jax.random.split(key)
        params = init_params(init_key)
        target_params = () if target_period is None else params
        return LearnerState(params, target_params, optimiser.init(params), key, jnp.zeros((), jnp.int32))

    def step(state: LearnerState, batch: Batch) -> tuple[LearnerState, Any, dict[str, jax.Array]]:
        key, loss_key = jax.random.split(state.key)
        grad = jax.value_and_grad(loss, has_aux=True)
        context = Context(state.target_params, loss_key, state.updates)
        (value, (priorities, metrics)), gradient = grad(state.params, context, batch)
        change, opt_state = optimiser.update(gradient, state.opt_state, state.params)
        params = optax.apply_updates(state.params, change)
        metrics = metrics | {
            "loss": value,
            "grad_norm": optax.global_norm(gradient),
            "learning_rate": jnp.asarray(schedule(state.updates), jnp.float32),
        }
        updates, target_params = state.updates + 1, state.target_params
        if target_period is not None:
            target_params = optax.periodic_update(params, target_params, updates, target_period)
        return LearnerState(params, target_params, opt_state, key, updates), priorities, metrics

    return Update(init=init, step=step, params=lambda state: state.params)


def _is_weight(params: Nest) -> Nest:
    return jax.tree.map(lambda x: x.ndim > 1, params)
