"""Gradient descent by one optimiser for all params, or by one for each entry of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from boonta.agents.base import Nest
from boonta.agents.groups import Optimiser

Metrics = dict[str, jax.Array]


class Descent(NamedTuple):
    """One step of gradient descent: pure functions.

    Attributes:
      init: `(params) -> optimiser state`.
      step: `(gradient, optimiser state, params, updates) -> (params, optimiser state, metrics)`.
    """

    init: Callable[[Nest], Nest]
    step: Callable[[Nest, Nest, Nest, jax.Array], tuple[Nest, Nest, Metrics]]


def make_schedule(settings: Optimiser, steps_per_update: int = 1) -> optax.Schedule:
    """Learning rate by step: linear to zero over `anneal_updates`, or constant where that is None."""
    if settings.anneal_updates is None:
        return optax.constant_schedule(settings.learning_rate)
    return optax.linear_schedule(settings.learning_rate, 0.0, settings.anneal_updates * steps_per_update)


def make_optimiser(settings: Optimiser, steps_per_update: int = 1) -> optax.GradientTransformation:
    """Clips the global norm of the gradient, then steps."""
    schedule, eps = make_schedule(settings, steps_per_update), settings.eps
    clip = optax.clip_by_global_norm(settings.max_grad_norm)
    if settings.kind == "rmsprop":
        # The mean square starts at 1, as in the TensorFlow optimiser that published settings were tuned with: from 0
        # the first steps would be up to 1 / sqrt(1 - decay) times too long.
        return optax.chain(clip, optax.rmsprop(schedule, decay=settings.decay, eps=eps, initial_scale=1.0))
    if settings.kind == "sgd":
        return optax.chain(clip, optax.sgd(schedule))
    # Without `eps_root` the gradient through a step, which `agents.meta` takes, would be NaN wherever a weight has had
    # no gradient yet.
    decay = settings.weight_decay
    return optax.chain(clip, optax.adamw(schedule, eps=eps, eps_root=1e-16, weight_decay=decay, mask=_is_weight))


def make_descent(optimiser: Optimiser | Mapping[str, Optimiser], steps_per_update: int) -> Descent:
    """Makes the descent of an update.

    Args:
      optimiser: settings for all params; or, where params are a dict, for each entry by its name.
      steps_per_update: steps that an update takes.
    """
    if isinstance(optimiser, Mapping):
        return _descend_by_entry({name: make_descent(own, steps_per_update) for name, own in optimiser.items()})
    # The schedule of the optimiser counts steps, the metric's counts updates.
    transformation, schedule = make_optimiser(optimiser, steps_per_update), make_schedule(optimiser)

    def step(gradient: Nest, state: Nest, params: Nest, updates: jax.Array) -> tuple[Nest, Nest, Metrics]:
        change, state = transformation.update(gradient, state, params)
        rate = jnp.asarray(schedule(updates), jnp.float32)
        metrics = {
            "grad_norm": optax.global_norm(gradient),
            "update_norm": optax.global_norm(change),
            "learning_rate": rate,
        }
        return optax.apply_updates(params, change), state, metrics

    return Descent(transformation.init, step)


def _descend_by_entry(descents: Mapping[str, Descent]) -> Descent:
    """A descent for each entry of the params."""

    def init(params: Nest) -> Nest:
        if not isinstance(params, Mapping) or set(params) != set(descents):
            own = sorted(params) if isinstance(params, Mapping) else type(params).__name__
            raise ValueError(f"optimisers are for the params {sorted(descents)}, but the params are {own}")
        return {name: descent.init(params[name]) for name, descent in descents.items()}

    def step(gradient: Nest, state: Nest, params: Nest, updates: jax.Array) -> tuple[Nest, Nest, Metrics]:
        new_params, new_state = {}, {}
        metrics: Metrics = {}
        for name, descent in descents.items():
            stepped = descent.step(gradient[name], state[name], params[name], updates)
            new_params[name], new_state[name] = stepped[:2]
            metrics |= {f"{metric}/{name}": value for metric, value in stepped[2].items()}
        return new_params, new_state, metrics

    return Descent(init, step)


def _is_weight(params: Nest) -> Nest:
    return jax.tree.map(lambda x: x.ndim > 1, params)
