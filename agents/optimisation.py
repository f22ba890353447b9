"""Makes an `Update` from a loss and an optimiser, for every agent that learns by gradient.

An update takes one step of gradient descent on its batch, or several epochs of them on parts of it; what all its steps
need of the batch is prepared once, with the params before them. Besides the params
it keeps what the agent asks for: target params that follow them, statistics that no gradient changes, and an optimiser
for each entry of the params. See `make_update`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from boonta.agents import convolutions
from boonta.agents.base import Batch, Nest, Update
from boonta.agents.descent import AnyOptimiser, Metrics, make_descent
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
      metrics: scalars and histograms by name, see `agents.metrics`.
      statistics: statistics of the batch, for `Statistics.merge`; () for agents without any.
    """

    priorities: Any
    metrics: Metrics
    statistics: Nest = ()


# `(params, context, batch, or the part of what was prepared of it) -> (loss [], outcome)`
Loss = Callable[[Nest, Context, Any], tuple[jax.Array, Outcome]]
# The same, with the parts of an agent as keyword arguments, such as its network and config.
AgentLoss = Callable[..., tuple[jax.Array, Outcome]]


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
    optimiser: AnyOptimiser | Mapping[str, AnyOptimiser],
    *,
    periods: Mapping[str, int] | None = None,
    target: Target | None = None,
    statistics: Statistics | None = None,
    published: Callable[[Nest, Nest], Nest] = lambda params, statistics: params,
    epochs: int = 1,
    minibatches: int = 1,
    prepare: Callable[[Nest, Context, Batch], Nest] | None = None,
    further: Callable[[Metrics], jax.Array] | None = None,
) -> Update:
    """Makes an update by gradient descent on a loss.

    The batch may be sharded over a mesh with the state replicated: under one `jit` sums over the batch axis are global,
    and XLA adds the collectives. The state may be donated.

    Args:
      init_params: `(key) -> params`.
      loss: sums or means over the whole batch; its metrics are scalars, or histograms.
      optimiser: settings of the descent on all params, or an optax gradient transformation; where params are a dict, or
        one of these for each entry by its name.
      periods: updates between those that change an entry of the params, by its name, as `descent.is_due` says; None
        changes all in every update.
      target: how `Context.target_params` follow the params; None keeps none.
      statistics: the statistics to keep; None keeps none.
      published: `(params, statistics) -> acting params`; actors receive nothing else.
      epochs: number of passes of an update over its batch.
      minibatches: number of equal parts into which each epoch splits the batch's sequences at random, with a step for
        each.
      prepare: `(params, context, batch) -> units`, leaves [N, ...]: what the loss needs, computed once with the params
        before the first step. The loss then gets units in place of sequences, and minibatches are equal parts of the N.
      further: `(means of an epoch's metrics) -> bool []`, whether there is another epoch; None makes all of them.

    Returns:
      `Update`; to the loss's metrics it adds "loss", "grad_norm" (before clipping), "update_norm" (the params' change)
      and, by settings, "learning_rate", these three followed by "/" and the name where there are several optimisers.
      With several steps, metrics are means over them.

    Raises:
      ValueError: epochs or minibatches is below 1; or, at an update, the batch can't be split into that many parts,
        or a metric of the loss has the name of one that the update adds.
    """
    if epochs < 1 or minibatches < 1:
        raise ValueError(f"epochs is {epochs}, minibatches is {minibatches}; they must be at least 1")
    descent = make_descent(optimiser, periods or {})
    follow = _follower(target)

    def init(key: jax.Array) -> LearnerState:
        key, init_key = jax.random.split(key)
        params = init_params(init_key)
        followed = () if target is None else target.part(params)
        gathered = () if statistics is None else statistics.init()
        return LearnerState(params, followed, descent.init(params), key, jnp.zeros((), jnp.int32), gathered)

    def descend(state: LearnerState, key: jax.Array, batch: Any) -> tuple[LearnerState, Outcome]:
        """Takes one step of descent; returns the loss's outcome with more metrics."""
        grad = jax.value_and_grad(_checked(loss), has_aux=True)
        context = Context(state.target_params, key, state.updates, state.statistics)
        (value, outcome), gradient = grad(state.params, context, batch)
        params, opt_state, metrics = descent.step(gradient, state.opt_state, state.params, state.updates)
        added = {"loss": value} | metrics
        if twice := outcome.metrics.keys() & added.keys():
            raise ValueError(f"the loss's metric {min(twice)!r} must have another name: the update adds {list(added)}")
        outcome = outcome._replace(metrics=outcome.metrics | added)
        return state._replace(params=params, opt_state=opt_state), outcome

    def step(state: LearnerState, batch: Batch) -> tuple[LearnerState, Any, Metrics]:
        key, loss_key = jax.random.split(state.key)
        whole: Any = batch
        if prepare is not None:
            loss_key, prepare_key = jax.random.split(loss_key)
            context = Context(state.target_params, prepare_key, state.updates, state.statistics)
            whole = jax.lax.stop_gradient(prepare(state.params, context, batch))
        if epochs * minibatches == 1:
            state, outcome = descend(state, loss_key, whole)
            parts = [outcome.statistics]
        else:
            state, outcome, parts = _descend_in_parts(descend, state, loss_key, whole, epochs, minibatches, further)
        updates, merged = state.updates + 1, state.statistics
        if statistics is not None:
            for part in parts:
                merged = statistics.merge(merged, part)
        target_params = follow(state.params, state.target_params, updates)
        state = LearnerState(state.params, target_params, state.opt_state, key, updates, merged)
        return state, outcome.priorities, outcome.metrics

    return Update(init=init, step=step, params=lambda state: published(state.params, state.statistics))


def _checked(loss: Loss) -> Loss:
    """The loss, whose result is refused if it isn't a loss and an `Outcome`."""

    def checked(params: Nest, context: Context, batch: Any) -> tuple[jax.Array, Outcome]:
        out = loss(params, context, batch)
        if isinstance(out, tuple) and len(out) == 2 and isinstance(out[1], Outcome):
            return out
        kinds = [type(part).__name__ for part in out] if isinstance(out, tuple) else type(out).__name__
        raise ValueError(f"the loss returns {kinds}; it must return a scalar and an Outcome of agents.optimisation")

    return checked


def _size(whole: Any) -> int:
    """The number of sequences of a batch, or of prepared units."""
    return (whole.probability if isinstance(whole, Batch) else jax.tree.leaves(whole)[0]).shape[0]


def _part(whole: Any, index: jax.Array) -> Any:
    """Some of a batch's sequences, or of prepared units."""
    return select(whole, index) if isinstance(whole, Batch) else jax.tree.map(lambda x: x[index], whole)


def _descend_in_parts(
    descend: Callable[[LearnerState, jax.Array, Any], tuple[LearnerState, Outcome]],
    state: LearnerState,
    key: jax.Array,
    whole: Any,
    epochs: int,
    minibatches: int,
    further: Callable[[Metrics], jax.Array] | None,
) -> tuple[LearnerState, Outcome, list[Nest]]:
    """Takes a step for each minibatch of each epoch.

    Returns:
      The state, the outcome over all steps, and the statistics of each minibatch of the first epoch.
    """
    size = _size(whole)
    if size % minibatches:
        raise ValueError(f"minibatches is {minibatches}; it must divide a batch of {size} sequences")

    def epoch(state: LearnerState, key: jax.Array) -> tuple[LearnerState, tuple[jax.Array, Outcome]]:
        deal_key, loss_key = jax.random.split(key)
        index = jax.random.permutation(deal_key, size).reshape(minibatches, -1)

        def one(state: LearnerState, part: tuple[jax.Array, jax.Array]) -> tuple[LearnerState, Outcome]:
            key, index = part
            with convolutions.in_loop():
                return descend(state, key, _part(whole, index))

        state, outcomes = jax.lax.scan(one, state, (jax.random.split(loss_key, minibatches), index))
        return state, (index.reshape(-1), outcomes)

    def maybe(carry: tuple[LearnerState, jax.Array], key: jax.Array) -> Any:
        """An epoch, unless one before it was the last; then its results are zeros."""
        state, goes_on = carry
        results = jax.eval_shape(epoch, state, key)[1]

        def skip(state: LearnerState, key: jax.Array) -> Any:
            return state, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), results)

        state, (index, outcomes) = jax.lax.cond(goes_on, epoch, skip, state, key)
        after = goes_on
        if further is not None:
            after = goes_on & further(jax.tree.map(jnp.mean, outcomes.metrics))
        return (state, after), (index, outcomes, goes_on)

    keys = jax.random.split(key, epochs)
    if further is None:
        state, (index, outcomes) = jax.lax.scan(epoch, state, keys)
        made = jnp.ones(epochs)
    else:
        (state, _), (index, outcomes, went) = jax.lax.scan(maybe, (state, jnp.bool_(True)), keys)
        made = went.astype(jnp.float32)
    number = jnp.sum(made)
    priorities = outcomes.priorities  # [epochs, minibatches, B / minibatches]; the last epoch's are the newest.
    if priorities is not None:
        last = jnp.int32(number) - 1
        newest = priorities[last].reshape(-1)
        priorities = jnp.zeros_like(newest).at[index[last]].set(newest)
    metrics = {name: jnp.sum(jnp.mean(x, axis=1), axis=0) / number for name, x in outcomes.metrics.items()}
    if further is not None:
        metrics["epochs"] = number
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
