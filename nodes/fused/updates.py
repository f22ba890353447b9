"""Several updates in one compiled program, and how XLA on CPU is kept from computing convolutions slowly."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from boonta.agents.base import Batch, Nest, Table, Update
from boonta.agents.metrics import histogram

MOST_UNROLLED = 16  # Updates in one program without a loop; each is compiled again.

One = Callable[[Nest, Nest], tuple[Nest, Nest]]  # `(carry, input) -> (carry, output)`


def looped(one: One, carry: Nest, inputs: Nest, number: int) -> tuple[Nest, Nest]:
    """Makes `number` updates in a loop.

    Args:
      one: makes one update.
      carry: the state that an update takes over from the one before.
      inputs: the inputs of all updates, leaves [number, ...].
      number: number of updates.

    Returns:
      The carry after the last update, and the outputs of all, leaves [number, ...].
    """
    if number == 1:
        return one_by_one(one, carry, inputs, number)
    return jax.lax.scan(one, carry, inputs, length=number)


def one_by_one(one: One, carry: Nest, inputs: Nest, number: int) -> tuple[Nest, Nest]:
    """Does the same as `looped` without a loop; each update is compiled again."""
    outputs = []
    for i in range(number):
        carry, output = one(carry, jax.tree.map(lambda x, i=i: x[i], inputs))
        outputs.append(output)
    return carry, jax.tree.map(lambda *leaves: jnp.stack(leaves), *outputs)


def pieces(number: int, size: int) -> int:
    """Pieces of `size` that cover `number`; none if nothing is left to cover."""
    return max(0, -(-number // size))


def require_few(updates: int, settings: str) -> None:
    """Refuses more updates without a loop than may be compiled one by one.

    Args:
      updates: updates in one program, and renewals, each of which is compiled as well.
      settings: the settings that make so many, for the message.

    Raises:
      ValueError: there are too many.
    """
    if updates > MOST_UNROLLED:
        raise ValueError(
            f"{settings}; on CPU, where each update of a convolutional agent is compiled, it must be at most "
            f"{MOST_UNROLLED}"
        )


def convolves_on_cpu(platform: str, update: Update, state: Nest, batch: Batch) -> bool:
    """Whether an update computes gradients of convolutions on CPU. The update is traced, not compiled.

    It must stay out of loops, inside of which XLA takes 9 to 30 times as long, and needs `compiler_options`.

    Args:
      platform: the devices' platform, such as "cpu".
      update: the agent's update.
      state: arrays or shapes of the learner's state.
      batch: arrays or shapes of a batch.
    """
    if platform != "cpu":
        return False
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (state, batch))
    return "conv_general_dilated" in str(jax.make_jaxpr(update.step)(*shapes))


@functools.cache
def compiler_options(convolves_on_cpu: bool) -> dict[str, str]:
    """Options of `jax.jit` for a program, none where it has no gradients of convolutions on CPU.

    XLA's newer releases hand parts of programs to a library for neural networks, with which a gradient of the Nature
    network takes 1.5 times the processor time that it takes without (jax 0.12, benchmarks/README.md).
    """
    options = {"xla_cpu_experimental_ynn_fusion_type": ""}
    if not convolves_on_cpu:
        return {}
    try:
        jax.jit(lambda x: x, compiler_options=options).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:  # This release has no such option.
        return {}
    return options


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


def compile_step(
    name: str, update: Update, state: Nest, batches: Sequence[Batch], shardings: Any, core_row: int = 0
) -> Any:
    """The compiled function `(state, batches, updates before, report) -> (state, StepResult)`.

    The state is donated, but on CPU: there jax 0.6.2 returns from a call with a donated argument only once all is
    computed, so that nothing would go on beside an update.

    Args:
      name: the learner's name, for messages.
      update: the agent's update.
      state: the learner's state.
      batches: one for each update of a step.
      shardings: those of the arguments.
      core_row: row of a sequence from which on it is learned from.

    Raises:
      ValueError: the updates are too many to be compiled one by one, see `require_few`.
    """

    def one(carry: Nest, batch: Batch) -> Any:
        state, updates = carry
        state, priorities, metrics = update.step(state, batch)
        return (state, updates + 1), (priorities, metrics | policy_lag(updates, batch.steps.version[core_row:]))

    def step(state: Nest, batches: Sequence[Batch], updates: Any, report: Any) -> tuple[Nest, StepResult]:
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *batches)
        (state, _), (priorities, metrics) = in_turn(one, (state, updates), stacked, len(batches))
        return state, StepResult(update.params(state), priorities, metrics, report)

    platform = shardings[0].mesh.devices.flat[0].platform
    convolves = convolves_on_cpu(platform, update, state, batches[0])
    in_turn = one_by_one if convolves else looped
    if convolves:
        require_few(len(batches), f"{name}: updates_per_step is {len(batches)}")
    donated = () if platform == "cpu" else 0
    return jax.jit(
        step,
        in_shardings=shardings,
        out_shardings=shardings[0],
        donate_argnums=donated,
        compiler_options=compiler_options(convolves),
    )


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
    lag = updates - version.astype(jnp.float32)
    return {"policy_lag": jnp.mean(lag), "policy_lag_max": jnp.max(lag)}


def require_finite(metrics: dict[str, Any], updates: int) -> None:
    """Refuses to go on from a loss that isn't finite.

    Raises:
      FloatingPointError: the loss isn't finite; the message contains it and the number of updates.
    """
    loss = metrics.get("loss", 0.0)
    if not np.isfinite(loss):
        raise FloatingPointError(
            f"the loss is {float(loss)} after {updates:,} updates; the newest checkpoint is from before: lower the "
            "learning rate, or look for what the environment shows or rewards that isn't finite"
        )
