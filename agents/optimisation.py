"""A loss and an optimiser make an `Update`; every agent that learns by gradient shares this file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from boonta.agents.base import Batch, Nest, Update
from boonta.agents.groups import Optimiser


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


class Target(NamedTuple):
    """How the older copy of the params follows them.

    Attributes:
      period: updates between its moves.
      tau: share of the way to the params that it goes in a move (Polyak averaging); None goes all the way, a copy.
    """

    period: int = 1
    tau: float | None = None


def make_schedule(settings: Optimiser) -> optax.Schedule:
    """Learning rate by update: linear to zero over `anneal_updates`, or constant where that is None."""
    if settings.anneal_updates is None:
        return optax.constant_schedule(settings.learning_rate)
    return optax.linear_schedule(settings.learning_rate, 0.0, settings.anneal_updates)


def make_optimiser(settings: Optimiser) -> optax.GradientTransformation:
    """Clips the global norm of the gradient, then steps."""
    schedule, eps = make_schedule(settings), settings.eps
    clip = optax.clip_by_global_norm(settings.max_grad_norm)
    if settings.kind == "rmsprop":
        # The mean square starts at 1, as in the TensorFlow optimiser that published settings were tuned with: from 0
        # the first steps would be up to 1 / sqrt(1 - decay) times too long.
        return optax.chain(clip, optax.rmsprop(schedule, decay=settings.decay, eps=eps, initial_scale=1.0))
    if settings.kind == "sgd":
        return optax.chain(clip, optax.sgd(schedule))
    # With nothing under the root the gradient through a step, which `agents.meta` takes, would be NaN wherever a
    # weight has had no gradient yet.
    decay = settings.weight_decay
    return optax.chain(clip, optax.adamw(schedule, eps=eps, eps_root=1e-16, weight_decay=decay, mask=_is_weight))


def make_update(
    init_params: Callable[[jax.Array], Nest],
    loss: Loss,
    optimiser: Optimiser,
    *,
    target: Target | None = None,
) -> Update:
    """Gradient descent on a loss.

    The batch may be sharded over a mesh with the state replicated: under one `jit` sums over the batch axis are global,
    and XLA adds the collectives. The state may be donated.

    Args:
      init_params: `(key) -> params`.
      loss: sums or means over the whole batch; its metrics are scalars.
      optimiser: settings of the descent.
      target: how `Context.target_params` follow the params; None keeps no copy.

    Returns:
      `Update`; to the loss's metrics it adds "loss", "grad_norm" (before clipping) and "learning_rate".
    """
    transformation, schedule = make_optimiser(optimiser), make_schedule(optimiser)

    def init(key: jax.Array) -> LearnerState:
        key, init_key = jax.random.split(key)
        params = init_params(init_key)
        target_params = () if target is None else params
        return LearnerState(params, target_params, transformation.init(params), key, jnp.zeros((), jnp.int32))

    def step(state: LearnerState, batch: Batch) -> tuple[LearnerState, Any, dict[str, jax.Array]]:
        key, loss_key = jax.random.split(state.key)
        grad = jax.value_and_grad(loss, has_aux=True)
        context = Context(state.target_params, loss_key, state.updates)
        (value, (priorities, metrics)), gradient = grad(state.params, context, batch)
        change, opt_state = transformation.update(gradient, state.opt_state, state.params)
        params = optax.apply_updates(state.params, change)
        metrics = metrics | {
            "loss": value,
            "grad_norm": optax.global_norm(gradient),
            "learning_rate": jnp.asarray(schedule(state.updates), jnp.float32),
        }
        updates, target_params = state.updates + 1, state.target_params
        if target is not None:
            target_params = follow(target, params, target_params, updates)
        return LearnerState(params, target_params, opt_state, key, updates), priorities, metrics

    return Update(init=init, step=step, params=lambda state: state.params)


def follow(target: Target, params: Nest, target_params: Nest, updates: jax.Array) -> Nest:
    """The target params after so many updates."""
    moved = params if target.tau is None else optax.incremental_update(params, target_params, target.tau)
    return optax.periodic_update(moved, target_params, updates, target.period)


def _is_weight(params: Nest) -> Nest:
    return jax.tree.map(lambda x: x.ndim > 1, params)
