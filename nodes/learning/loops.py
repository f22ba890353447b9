"""Several updates in one compiled program, and how XLA on CPU is kept from computing convolutions slowly."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from boonta.agents.base import Batch, Nest, Update

MOST_UNROLLED = 16  # Updates in one program without a loop; each is compiled again.

One = Callable[[Nest, Nest], tuple[Nest, Nest]]  # `(carry, input) -> (carry, output)`


def in_turn(one: One, carry: Nest, inputs: Nest, number: int, unrolled: bool) -> tuple[Nest, Nest]:
    """Makes `number` updates.

    Args:
      one: makes one update.
      carry: the state that an update takes over from the one before.
      inputs: the inputs of all updates, leaves [number, ...].
      number: number of updates.
      unrolled: whether they are made without a loop; each is compiled again then.

    Returns:
      The carry after the last update, and the outputs of all, leaves [number, ...].
    """
    if number > 1 and not unrolled:
        return jax.lax.scan(one, carry, inputs, length=number)
    outputs = []
    for i in range(number):
        carry, output = one(carry, jax.tree.map(lambda x, i=i: x[i], inputs))
        outputs.append(output)
    return carry, jax.tree.map(lambda *leaves: jnp.stack(leaves), *outputs)


def updates_in_dispatch(update: Update, given: int | None) -> int:
    """Number of updates that a learner makes in one dispatch.

    Args:
      update: the agent's update, which names a number for programs that name none.
      given: the learner's setting `updates_per_step`; None if the program names none.
    """
    return update.at_once if given is None else given


def pieces(number: int, size: int) -> int:
    """Pieces of `size` that cover `number`; none if nothing is left to cover."""
    return max(0, -(-number // size))


def require_few(updates: int, settings: str) -> None:
    """Refuses more updates without a loop than may be compiled one by one.

    Args:
      updates: updates in one program, and renewals, each of which is compiled as well.
      settings: the settings that determine `updates`, for the message.

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
