"""Meta-gradients: an agent that learns its own hyper-parameters, such as a discount or the weight of a loss.

See "Meta-Gradient Reinforcement Learning" (https://arxiv.org/abs/1805.09801), and "Podracer architectures for scalable
Reinforcement Learning" (https://arxiv.org/abs/2104.06272), which trains many such learners at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from boonta.agents.base import Agent, Batch, MakeAgent, Nest, Table, Update
from boonta.agents.config import declared_of, leaves, with_values
from boonta.agents.sequences import select

# Raised where a traced program needs the value of a number: as a shape, a number of steps, a choice or an index.
NEEDS_VALUE = (TypeError, ValueError, jax.errors.JAXIndexError)


class MetaState(NamedTuple):
    """The state of learning and of meta-learning.

    Attributes:
      learner: the agent's own state.
      eta: float32 [] by field: the unbounded variables behind the hyper-parameters, see `bounded`.
      opt_state: state of the optimiser of eta.
    """

    learner: Nest
    eta: dict[str, jax.Array]
    opt_state: Nest


def meta_gradient(make: MakeAgent, config: Any, start: Mapping[str, float], learning_rate: float = 1e-2) -> Agent:
    """Makes an agent whose update also learns hyper-parameters.

    A batch is split into two halves. The agent learns from the first one with its current hyper-parameters, eta. The
    second half judges the result: it gives the loss at the new params with the hyper-parameters of `config`. The
    gradient of that loss by eta, through the update (Eq. 5 and 6 of the paper, where the second trajectory is the next
    one), steps eta. Then the agent learns from the second half, too.

    Args:
      make: makes the agent from a config; its update is one of `make_update`. Its metrics hold "loss", at the params
        before the update, and that loss lets gradients through to the fields that are learned.
      config: the agent's hyper-parameters; the result is judged with these, also in the learned fields.
      start: initial values of the learned fields, above 0. They stay above 0, and those that a config allows up to 1
        only stay below 1.
      learning_rate: Adam's learning rate for eta.

    Raises:
      ValueError: nothing is to be learned, a field holds no number, the agent needs a field's value before anything is
        computed, a start is not above 0, or a batch size is odd. The update's trace, where no gradient reaches a field.
    """
    judge = make(config)
    shares = _shares(config, start, judge.tables)
    for field in start:
        _require_traced(make, config, field)
    optimiser = optax.adam(learning_rate)

    def values(eta: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        return {field: bounded(start[field], x, shares[field]) for field, x in eta.items()}

    def update_with(eta: Mapping[str, jax.Array]) -> Update:
        return make(with_values(config, values(eta))).update

    def init(key: jax.Array) -> MetaState:
        eta = {field: jnp.zeros(()) for field in start}
        return MetaState(judge.update.init(key), eta, optimiser.init(eta))

    def step(state: MetaState, batch: Batch) -> tuple[MetaState, Any, dict[str, jax.Array]]:
        first, second = _half(batch, 0), _half(batch, 1)

        def judged(eta: dict[str, jax.Array]) -> tuple[jax.Array, tuple[Nest, Any]]:
            learner, priorities, _ = update_with(eta).step(state.learner, first)
            learner = learner._replace(updates=state.learner.updates)  # Both halves are one update: schedules count it.
            return judge.update.step(learner, second)[2]["loss"], (learner, priorities)

        _require_gradient(lambda eta: judged(eta)[0], state.eta)
        (loss, (learner, priorities)), gradient = jax.value_and_grad(judged, has_aux=True)(state.eta)
        change, opt_state = optimiser.update(gradient, state.opt_state)
        eta = optax.apply_updates(state.eta, change)
        learner, others, metrics = update_with(eta).step(learner, second)
        if priorities is not None:
            priorities = jnp.stack([priorities, others], axis=1).reshape(-1)
        learned = {f"meta/{field}": value for field, value in values(eta).items()}
        return MetaState(learner, eta, opt_state), priorities, metrics | learned | {"meta/loss": loss}

    update = Update(init=init, step=step, params=lambda state: judge.update.params(state.learner))
    return judge._replace(update=update)


def bounded(start: float, x: jax.Array, share: bool) -> jax.Array:
    """The hyper-parameter for `x` [], an entry of eta: `start` at 0, always above 0, and below 1 if it is a share."""
    if share:
        return jax.nn.sigmoid(x + jnp.log(start / (1 - start)))
    return start * jnp.exp(x)


def _half(batch: Batch, which: int) -> Batch:
    """Every second sequence, so that each device keeps half of what it has."""
    return select(batch, slice(which, None, 2))


def _shares(config: Any, start: Mapping[str, float], tables: Sequence[Table]) -> dict[str, bool]:
    """Whether each learned field must stay below 1; refuses fields that can't be learned."""
    shares = {}
    if not start:
        raise ValueError("meta-gradient: start names no hyper-parameter to learn")
    for field, value in start.items():
        if not isinstance(leaves(config).get(field), float):
            raise ValueError(f"meta-gradient: {field} is no number's field of {type(config).__name__}")
        share = shares[field] = _is_share(config, field)
        if not 0 < value < (1 if share else math.inf):
            allowed = "above 0 and below 1" if share else "above 0, and finite"
            raise ValueError(f"meta-gradient: {field} starts at {value}; it must be {allowed}")
    for table in tables:
        if table.batch_size % 2:
            raise ValueError(f"batch_size is {table.batch_size}; a meta-gradient needs two halves of it")
    return shares


def _require_traced(make: MakeAgent, config: Any, field: str) -> None:
    """Refuses a field on which more than numbers of an update depend, such as a limit of a table."""

    def trace(value: jax.Array) -> Nest:
        return make(with_values(config, {field: value})).update.init(jax.random.PRNGKey(0))

    try:
        jax.eval_shape(trace, jax.ShapeDtypeStruct((), jnp.float32))
    except NEEDS_VALUE as error:
        raise ValueError(
            f"meta-gradient: {field} can't be learned: the agent needs its value before it is compiled"
        ) from error


def _require_gradient(loss: Callable[[dict[str, jax.Array]], jax.Array], eta: dict[str, jax.Array]) -> None:
    """Refuses fields that no gradient of the loss reaches: they would never change."""
    traced = jax.make_jaxpr(jax.grad(loss))(eta).jaxpr
    constant = [field for field, out in zip(sorted(eta), traced.outvars) if not inputs_behind(traced, [out])]
    if constant:
        raise ValueError(f"meta-gradient: no gradient reaches {', '.join(constant)}, which would never change")


def inputs_behind(jaxpr: Any, outputs: Sequence[Any]) -> list[Any]:
    """The inputs and constants of a traced program on which some of its outputs depend."""
    needed = {id(variable) for variable in outputs}
    for equation in reversed(jaxpr.eqns):
        if any(id(variable) in needed for variable in equation.outvars):
            needed.update(id(variable) for variable in equation.invars)
    return [variable for variable in (*jaxpr.invars, *jaxpr.constvars) if id(variable) in needed]


def _is_share(config: Any, field: str) -> bool:
    """Whether a field declares that no value above 1 is allowed."""
    declared = declared_of(config, field)
    return declared is not None and not declared.allows(2.0)
