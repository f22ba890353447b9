"""Several updates in one compiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from boonta.agents.base import Batch, Nest, Update

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


def slow_in_loop(platform: str, update: Update, state: Nest, batch: Batch) -> bool:
    """Whether an update must stay out of loops: XLA on CPU computes gradients of convolutions slowly inside of one.

    In loops they take 9 to 30 times as long. The update is traced, not compiled.

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


def policy_lag(updates: Any, version: jax.Array) -> dict[str, jax.Array]:
    """Metrics of a batch: the updates between the params that acted, `version` [T, B], and those that learn."""
    lag = updates - version.astype(jnp.float32)
    return {"policy_lag": jnp.mean(lag), "policy_lag_max": jnp.max(lag)}
