"""The learner's step as one compiled program, what it measures, and the refusal of a loss that isn't finite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from boonta.agents.base import Agent, Batch, Nest, Table
from boonta.agents.metrics import histogram
from boonta.envs.base import EnvSpec
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.learning.loops import compiler_options, convolves_on_cpu, in_turn, require_few
from boonta.nodes.learning.outputs import checked_update
from boonta.nodes.tables import contract
from boonta.nodes.watch.history import norms


class StepResult(NamedTuple):
    """The results of several updates that a learner dispatches as one step, for the host.

    Attributes:
      params: the acting params, after the last update.
      priorities: [updates, B], or None.
      metrics: [updates] each.
      reports: the reports of all hosts, from the agreement.
    """

    params: Any
    priorities: Any
    metrics: dict[str, Any]
    reports: Any


def batch_shapes(agent: Agent, spec: EnvSpec) -> Batch:
    """The shapes and dtypes of the batches that an agent learns from, in environments with this spec."""
    table = contract.learned_from(agent.tables)[0]
    rows = (table.sequence_length, table.batch_size)
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((*rows, *leaf.shape), leaf.dtype), step_shapes(agent, spec))
    steps = jax.eval_shape(lambda steps: contract.with_one_core(table, steps), shapes)
    return Batch(steps, jax.ShapeDtypeStruct((table.batch_size,), np.float32))


def compile_step(name: str, agent: Agent, spec: EnvSpec, shardings: Any, state: Nest, report: Any) -> Any:
    """The compiled function `(state, batches, updates before, report) -> (state, StepResult)`.

    The state is donated, except on CPU. There, jax 0.6.2 blocks in a call with donated arguments until everything is
    computed, so nothing could run beside an update.

    Args:
      name: the learner's name, for messages.
      agent: it learns from its tables.
      spec: the environments' spec, for which the agent was made.
      shardings: those of the arguments; there are as many batches as have one.
      state: the learner's state.
      report: a report of the host's.

    Raises:
      OutputError: the update returns what no update does.
      ValueError: the updates are too many to be compiled one by one, see `require_few`.
    """
    update, tables, batch = agent.update, contract.learned_from(agent.tables), batch_shapes(agent, spec)
    updates = len(shardings[1])

    def one(carry: Nest, batch: Batch) -> Any:
        state, made = carry
        state, priorities, metrics = checked_update(update, state, batch, tables)
        lag = policy_lag(made, batch.steps.version[tables[0].core_row :])
        return (state, made + 1), (priorities, metrics | lag)

    def step(state: Nest, batches: Sequence[Batch], made: Any, report: Any) -> tuple[Nest, StepResult]:
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *batches)
        (state, _), (priorities, metrics) = in_turn(one, (state, made), stacked, len(batches), convolves)
        return state, StepResult(update.params(state), priorities, metrics, report)

    platform = shardings[0].mesh.devices.flat[0].platform
    convolves = convolves_on_cpu(platform, update, state, batch)
    if convolves:
        require_few(updates, f"{name}: updates_per_step is {updates}")
    compiled = jax.jit(
        step,
        in_shardings=shardings,
        out_shardings=shardings[0],
        donate_argnums=() if platform == "cpu" else 0,
        compiler_options=compiler_options(convolves),
    )
    return compiled.lower(state, (batch,) * updates, 0, report).compile()


def priority_metrics(priorities: Any) -> dict[str, Any]:
    """Metrics of an update's priorities [B]: the mean error of its sequences, the largest, and all as a histogram."""
    return {
        "priority": priorities.mean(),
        "priority_max": priorities.max(),
        "histogram/priority": histogram(priorities),
    }


def allowed_lag(tables: Sequence[Table]) -> dict[str, float]:
    """The policy lag that the agent's tables allow, as a metric; none if they allow any."""
    kept = [table.max_lag if table.max_staleness is None else table.max_staleness for table in tables]
    limits = [limit for limit in kept if limit is not None]
    return {"policy_lag_allowed": float(max(limits))} if len(limits) == len(tables) else {}


def policy_lag(updates: Any, version: jax.Array) -> dict[str, jax.Array]:
    """Metrics of a batch: the updates between the params that acted, `version` [T, B], and those that learn."""
    lag = (updates - version).astype(jnp.float32)  # Float32 has no odd numbers above 2^24.
    return {"policy_lag": jnp.mean(lag), "policy_lag_max": jnp.max(lag)}


def require_finite(metrics: dict[str, Any], updates: int) -> None:
    """Refuses to go on from an update that isn't finite, before its params are published or saved.

    A loss is that of the params before the update. Where its gradient alone isn't finite, the params after it aren't.

    Raises:
      FloatingPointError: the loss or the params' change isn't finite; the message has it and the number of updates.
    """
    for name in ["loss", *norms(metrics, "update_norm")]:
        value = metrics.get(name, 0.0)
        if not np.isfinite(value):
            raise FloatingPointError(
                f"the {name} is {float(value)} after {updates:,} updates; the newest checkpoint is from before: lower "
                "the learning rate, or look for what the environment shows or rewards that isn't finite"
            )
