"""Makes an `Update` from a loss and an optimiser, for every agent that learns by gradient.

An update takes one step of gradient descent on its batch, or several epochs of them on parts of it. Besides the params
it keeps what the agent asks for: target params that follow them, statistics that no gradient changes, and an optimiser
for each entry of the params. See `make_update`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from boonta.agents.base import Batch, Nest, Update
from boonta.agents.descent import Metrics, make_descent
from boonta.agents.groups import Optimiser
from boonta.agents.sequences import select


class Context(NamedTuple):
    """The arguments of a loss besides params and batch.

    Attributes:
      target_params: the target params, or () for agents without any.
      key: PRNG key of this step.
      updates: int32 [], the number of updates before this one.
      statistics: the statistics before this update, or ().
    """

    target_params: Nest
    key: jax.Array
    updates: jax.Array
    statistics: Nest = ()


class Outcome(NamedTuple):
    """The results of a loss besides its value.

    Attributes:
      priorities: float32 [B], or None.
      metrics: scalars by name.
      statistics: statistics of the batch, for `Statistics.merge`; () for agents without any.
    """

    priorities: Any
    metrics: Metrics
    statistics: Nest = ()


Loss = Callable[[Nest, Context, Batch], tuple[jax.Array, Outcome]]  # `(params, context, batch) -> (loss [], outcome)`


class Target(NamedTuple):
    """The way in which target params follow the params.

    Attributes:
      period: updates between their moves.
      tau: fraction of the distance to the params covered in a move (Polyak averaging); None copies them.
      part: `(params) -> the part to follow`; all of them unless an agent needs fewer.
    """

    period: int = 1
    tau: float | None = None
    part: Callable[[Nest], Nest] = lambda params: params


class Statistics(NamedTuple):
    """Quantities that are learned without a gradient, such as the moments by which observations are normalised.

    Every update merges its batch's statistics once, however many epochs it makes. As the loss sums over
    the whole batch, the statistics are the same on all devices.

    Attributes:
      init: `() -> statistics` of no data.
      merge: `(statistics, those of a batch) -> statistics`.
    """

    init: Callable[[], Nest]
    merge: Callable[[Nest, Nest], Nest]


class LearnerState(NamedTuple):
    """The state of learning between updates; arrays only.

    Attributes:
      params: params of the networks.
      target_params: the params that follow them, or () for agents without any.
      opt_state: state of the optimiser, or of several optimisers by name.
      key: PRNG key, for losses that draw random numbers.
      updates: int32 [], the number of updates so far.
      statistics: see `Statistics`, or ().
    """

    params: Nest
    target_params: Nest
    opt_state: Nest
    key: jax.Array
    updates: jax.Array
    statistics: Nest = ()


def make_update(
    init_params: Callable[[jax.Array], Nest],
    loss: Loss,
    optimiser: Optimiser | Mapping[str, Optimiser],
    *,
    periods: Mapping[str, int] | None = None,
    target: Target | None = None,
    statistics: Statistics | None = None,
    published: Callable[[Nest, Nest], Nest] = lambda params, statistics: params,
    epochs: int = 1,
    minibatches: int = 1,
) -> Update:
    """Makes an update by gradient descent on a loss.

    The batch may be sharded over a mesh with the state replicated: under one `jit` sums over the batch axis are global,
    and XLA adds the collectives. The state may be donated.

    Args:
      init_params: `(key) -> params`.
      loss: sums or means over the whole batch; its metrics are scalars.
      optimiser: settings of the descent on all params; or, where params are a dict, those of each entry by its name.
      periods: updates between those that change an entry of the params, by its name, as `descent.is_due` says; None
        changes all in every update.
      target: how `Context.target_params` follow the params; None keeps none.
      statistics: the statistics to keep; None keeps none.
      published: `(params, statistics) -> acting params`; actors receive nothing else.
      epochs: number of passes of an update over its batch.
      minibatches: number of equal parts into which each epoch splits the batch's sequences at random, with a step for
        each.

    Returns:
      `Update`; to the loss's metrics it adds "loss", "grad_norm" (before clipping), "update_norm" (the params' change)
      and "learning_rate", the last three followed by "/" and the name where there are several optimisers. With several
      steps, metrics are means over them.

    Raises:
      ValueError: epochs or minibatches is below 1; or, at an update, the batch can't be split into so many minibatches.
    """
    if epochs < 1 or minibatches < 1:
        raise ValueError(f"epochs is {epochs}, minibatches is {minibatches}; they must be at least 1")
    descent = make_descent(optimiser, epochs * minibatches, periods or {})
    follow = _follower(target)

    def init(key: jax.Array) -> LearnerState:
        key, init_key = jax.random.split(key)
        params = init_params(init_key)
        followed = () if target is None else target.part(params)
        gathered = () if statistics is None else statistics.init()
        return LearnerState(params, followed, descent.init(params), key, jnp.zeros((), jnp.int32), gathered)

    def descend(state: LearnerState, key: jax.Array, batch: Batch) -> tuple[LearnerState, Outcome]:
        """Takes one step of descent; returns the loss's outcome with more metrics."""
        grad = jax.value_and_grad(loss, has_aux=True)
        context = Context(state.target_params, key, state.updates, state.statistics)
        (value, outcome), gradient = grad(state.params, context, batch)
        params, opt_state, metrics = descent.step(gradient, state.opt_state, state.params, state.updates)
        outcome = outcome._replace(metrics=outcome.metrics | {"loss": value} | metrics)
        return state._replace(params=params, opt_state=opt_state), outcome

    def step(state: LearnerState, batch: Batch) -> tuple[LearnerState, Any, Metrics]:
        key, loss_key = jax.random.split(state.key)
        if epochs * minibatches == 1:
            state, outcome = descend(state, loss_key, batch)
            parts = [outcome.statistics]
        else:
            state, outcome, parts = _descend_in_parts(descend, state, loss_key, batch, epochs, minibatches)
        updates, merged = state.updates + 1, state.statistics
        if statistics is not None:
            for part in parts:
                merged = statistics.merge(merged, part)
        target_params = follow(state.params, state.target_params, updates)
        state = LearnerState(state.params, target_params, state.opt_state, key, updates, merged)
        return state, outcome.priorities, outcome.metrics

    return Update(init=init, step=step, params=lambda state: published(state.params, state.statistics))


def _descend_in_parts(
    descend: Callable[[LearnerState, jax.Array, Batch], tuple[LearnerState, Outcome]],
    state: LearnerState,
    key: jax.Array,
    batch: Batch,
    epochs: int,
    minibatches: int,
) -> tuple[LearnerState, Outcome, list[Nest]]:
    """Takes a step for each minibatch of each epoch.

    Returns:
      The state, the outcome over all steps, and the statistics of each minibatch of the first epoch.
    """
    size = batch.probability.shape[0]
    if size % minibatches:
        raise ValueError(f"minibatches is {minibatches}; it must divide a batch of {size} sequences")

    def epoch(state: LearnerState, key: jax.Array) -> tuple[LearnerState, tuple[jax.Array, Outcome]]:
        deal_key, loss_key = jax.random.split(key)
        dealt = jax.random.permutation(deal_key, size).reshape(minibatches, -1)

        def one(state: LearnerState, part: tuple[jax.Array, jax.Array]) -> tuple[LearnerState, Outcome]:
            key, index = part
            return descend(state, key, select(batch, index))

        state, outcomes = jax.lax.scan(one, state, (jax.random.split(loss_key, minibatches), dealt))
        return state, (dealt.reshape(-1), outcomes)

    state, (dealt, outcomes) = jax.lax.scan(epoch, state, jax.random.split(key, epochs))
    priorities = outcomes.priorities  # [epochs, minibatches, B / minibatches]; the last epoch's are the newest.
    if priorities is not None:
        last = priorities[-1].reshape(-1)
        priorities = jnp.zeros_like(last).at[dealt[-1]].set(last)
    metrics = {name: jnp.mean(values) for name, values in outcomes.metrics.items()}
    statistics = [jax.tree.map(lambda x, i=i: x[0, i], outcomes.statistics) for i in range(minibatches)]
    return state, Outcome(priorities, metrics), statistics


def _follower(target: Target | None) -> Callable[[Nest, Nest, jax.Array], Nest]:
    """`(params, target params, updates) -> target params`."""
    if target is None:
        return lambda params, followed, updates: followed

    def follow(params: Nest, followed: Nest, updates: jax.Array) -> Nest:
        moved = target.part(params)
        if target.tau is not None:
            moved = optax.incremental_update(moved, followed, target.tau)
        return optax.periodic_update(moved, followed, updates, target.period)

    return follow
