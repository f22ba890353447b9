"""Gradient descent by one optimiser for all params, or by one for each entry of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from boonta.agents.base import Nest
from boonta.agents.groups import Optimiser

Metrics = dict[str, jax.Array]
AnyOptimiser: TypeAlias = Optimiser | optax.GradientTransformation  # Settings, or the user's own.
OwnOptimisers: TypeAlias = optax.GradientTransformation | Mapping[str, optax.GradientTransformation] | None
FEW = 16  # Arrays that an optimiser takes one by one; measured with 8 and 48.


class Descent(NamedTuple):
    """One step of gradient descent: pure functions.

    Attributes:
      init: `(params) -> optimiser state`.
      step: `(gradient, optimiser state, params, updates) -> (params, optimiser state, metrics)`.
    """

    init: Callable[[Nest], Nest]
    step: Callable[[Nest, Nest, Nest, jax.Array], tuple[Nest, Nest, Metrics]]


def make_schedule(settings: Optimiser) -> optax.Schedule:
    """Learning rate by update: linear to zero over `anneal_updates`, or constant where that is None."""
    if settings.anneal_updates is None:
        return optax.constant_schedule(settings.learning_rate)
    return optax.linear_schedule(settings.learning_rate, 0.0, settings.anneal_updates)


def make_optimiser(settings: Optimiser, rate: float | jax.Array, weights: Nest = None) -> optax.GradientTransformation:
    """Clips the global norm of the gradient, then steps.

    Args:
      settings: the optimiser's settings.
      rate: the learning rate of this update. A schedule of optax's would count the optimiser's steps: an update with
        minibatches takes several, and one in which an entry of the params rests takes none.
      weights: the params that decay, with 0 in place of those that don't; None if none does.
    """
    # As a number it would take the count of steps out of the optimiser's state, which checkpoints hold.
    schedule, eps = optax.constant_schedule(rate), settings.eps
    # optax multiplies by the limit even where it isn't reached: were it infinite, the gradient through a step, which
    # `agents.meta` takes, would be NaN. A member of a population may have one that is traced.
    unlimited = isinstance(settings.max_grad_norm, float) and math.isinf(settings.max_grad_norm)
    clip = optax.identity() if unlimited else optax.clip_by_global_norm(settings.max_grad_norm)
    if settings.kind == "rmsprop":
        # The mean square starts at 1, as in the TensorFlow optimiser that published settings were tuned with: from 0
        # the first steps would be up to 1 / sqrt(1 - decay) times too long.
        return optax.chain(clip, optax.rmsprop(schedule, decay=settings.decay, eps=eps, initial_scale=1.0))
    if settings.kind == "sgd":
        return optax.chain(clip, optax.sgd(schedule))
    # Without `eps_root` the gradient through a step, which `agents.meta` takes, would be NaN wherever a weight has had
    # no gradient yet.
    adam = optax.scale_by_adam(eps=eps, eps_root=1e-16)
    decays = optax.tree_utils.tree_add_scale
    decay = optax.stateless(lambda x, _: x if weights is None else decays(x, settings.weight_decay, weights))
    return optax.chain(clip, adam, decay, optax.scale_by_learning_rate(schedule))


def chosen(
    settings: Optimiser | Mapping[str, Optimiser], own: OwnOptimisers
) -> AnyOptimiser | Mapping[str, Optimiser] | Mapping[str, AnyOptimiser]:
    """An agent's optimisers: those that its config describes, or the user's own in their place.

    Args:
      settings: the config's: of one optimiser, or of several by name.
      own: the user's, which takes the place of one or of each of several; or a dict with some of several by name; None
        keeps the config's.

    Raises:
      ValueError: a name is not among the config's.
    """
    if own is None:
        return settings
    if not isinstance(settings, Mapping):
        return own
    if not isinstance(own, Mapping):
        return dict.fromkeys(settings, own)
    if unknown := own.keys() - settings.keys():
        raise ValueError(f"optimiser has an entry {min(unknown)!r}; the agent's optimisers are {sorted(settings)}")
    return {**settings, **own}


def make_descent(optimiser: AnyOptimiser | Mapping[str, AnyOptimiser], periods: Mapping[str, int]) -> Descent:
    """Makes the descent of an update.

    Args:
      optimiser: settings for all params, or an optax gradient transformation; or, where params are a dict, one of these
        for each entry by its name.
      periods: updates between those that change an entry, by its name; 1 for others.

    Raises:
      ValueError: an optimiser is neither.
    """
    if isinstance(optimiser, Mapping):
        return _descend_by_entry(
            {name: _rarely(make_descent(own, {}), periods.get(name, 1)) for name, own in optimiser.items()}
        )
    if isinstance(optimiser, optax.GradientTransformation):
        return _descend_by(optimiser)
    if not isinstance(optimiser, Optimiser):
        wanted = "settings of agents.groups.Optimiser, or an optax gradient transformation such as optax.lion(1e-4)"
        raise ValueError(f"optimiser is {optimiser!r}; it must be {wanted}")
    schedule = make_schedule(optimiser)

    def init(params: Nest) -> Nest:
        return make_optimiser(optimiser, optimiser.learning_rate).init(_packed(params)[0])

    def step(gradient: Nest, state: Nest, params: Nest, updates: jax.Array) -> tuple[Nest, Nest, Metrics]:
        packed, unpack = _packed(params)
        slope, _ = _packed(gradient)
        # In a population the setting is an array, whose value isn't known here.
        never = isinstance(optimiser.weight_decay, (int, float)) and optimiser.weight_decay == 0
        weights = None if never else _packed(_only_weights(params))[0]
        rate = schedule(updates)
        change, state = make_optimiser(optimiser, rate, weights).update(slope, state, packed)
        metrics = _norms(slope, change) | {"learning_rate": jnp.asarray(rate, jnp.float32)}
        return unpack(optax.apply_updates(packed, change)), state, metrics

    return Descent(init, step)


def _descend_by(optimiser: optax.GradientTransformation) -> Descent:
    """Descends by the user's own optimiser. It gets params as they are, since it may tell them by name or shape."""

    def step(gradient: Nest, state: Nest, params: Nest, updates: jax.Array) -> tuple[Nest, Nest, Metrics]:
        del updates
        try:
            change, state = optimiser.update(gradient, state, params)
        except TypeError as error:  # Such as a line search, which asks for the loss, too.
            raise ValueError(f"optimiser: {error}; it must need nothing but gradients and params") from error
        return optax.apply_updates(params, change), state, _norms(gradient, change)

    return Descent(optimiser.init, step)


def _norms(gradient: Nest, change: Nest) -> Metrics:
    """The lengths of the gradient, before clipping, and of the step."""
    return {"grad_norm": optax.global_norm(gradient), "update_norm": optax.global_norm(change)}


def is_due(updates: jax.Array, period: int) -> jax.Array:
    """Whether the update after `updates` others is one that changes what changes once in a period: its last one."""
    return (updates + 1) % period == 0


def _rarely(descent: Descent, period: int) -> Descent:
    """A descent that changes params and state only once in `period` updates; a metric says when it rests."""
    if period == 1:
        return descent

    def step(gradient: Nest, state: Nest, params: Nest, updates: jax.Array) -> tuple[Nest, Nest, Metrics]:
        due = is_due(updates, period)
        moved, opt_state, metrics = descent.step(gradient, state, params, updates)
        params, state = jax.tree.map(lambda new, old: jnp.where(due, new, old), (moved, opt_state), (params, state))
        made = jnp.where(due, metrics["update_norm"], 0)
        return params, state, metrics | {"update_norm": made, "rests": 1.0 - due}

    return Descent(descent.init, step)


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


def _packed(params: Nest) -> tuple[Nest, Callable[[Nest], Nest]]:
    """What an optimiser sees of params or of their gradient, and the function that gives them back from it.

    On the CPU each array has a cost of its own, which for MuZero's 48 is a tenth of its small update, so that many
    arrays are made one vector [P]. For IMPALA's eight the vector itself costs a tenth of a fused program's rate.
    """
    if len(jax.tree.leaves(params)) <= FEW:
        return params, lambda packed: packed
    return ravel_pytree(params)


def _only_weights(params: Nest) -> Nest:
    """The params, with 0 in place of biases and of the scales of normalisation."""
    return jax.tree.map(lambda x: x if x.ndim > 1 else jnp.zeros_like(x), params)
