"""The NaNs that environments show in a fused program: they are counted on the device, and the host names the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import tree

from boonta.agents.base import Steps
from boonta.envs.base import FIRST, TimeStep


class Nans(NamedTuple):
    """The NaNs in some steps of all slots, and the place of the first.

    What an action that is NaN itself leads to at once is not among them: the policy is its cause.

    Attributes:
      times: float32 [], how many each leaf of real numbers has, by its name.
      steps: int32 [], the number of these steps in each slot.
      step: int32 [], the step of the first NaN; the first of these steps leads to 1.
      slot: int32 [], its slot.
    """

    times: Mapping[str, jax.Array]
    steps: jax.Array
    step: jax.Array
    slot: jax.Array


def at_start(timestep: TimeStep) -> Nans:
    """The NaNs that environments show before the first step, leaves [B, ...]."""
    return _summed({name: number[None] for name, number in _counts(timestep).items()})


def after_steps(steps: Steps, last: TimeStep) -> Nans:
    """The NaNs to which steps [T, B, ...] have led, up to those of `last`, leaves [B, ...].

    What the first of the steps shows isn't among them: it was looked at with the steps before.
    """
    by_policy = jnp.any(jnp.isnan(steps.action), axis=tuple(range(2, steps.action.ndim)))  # [T, B]
    step_type = jnp.concatenate([steps.step_type, last.step_type[None]])  # [T+1, B]
    new = jnp.zeros_like(step_type[:1], bool)
    counts = jnp.concatenate([new, ~by_policy | (step_type[1:] == FIRST)])  # Whether the environment answers for it.
    shown, at_last = _counts(steps.timestep), _counts(last)
    return _summed({name: counts * jnp.concatenate([shown[name], at_last[name][None]]) for name in shown})


def joined(before: Nans | None, after: Nans | None) -> Nans | None:
    """The NaNs of some steps and of those that follow on them, where both are known; arrays of JAX or of numpy."""
    if before is None or after is None:
        return None
    found = sum(before.times.values()) > 0
    return Nans(
        {name: number + after.times[name] for name, number in before.times.items()},
        before.steps + after.steps,
        found * before.step + ~found * (before.steps + after.step),
        found * before.slot + ~found * after.slot,
    )


def described(nans: Nans, names: Sequence[str], steps: int, updates: int) -> dict[str, str]:
    """A message for each learner whose environments have shown NaN, by its name; no one else looks at it.

    Args:
      nans: those of the last steps, on the host; of a population arrays [members].
      names: what messages call each learner; one that is alone has an empty name.
      steps: the steps of each slot so far.
      updates: the updates so far.

    Returns:
      The messages, with the leaves, the slot and the step of the first.
    """
    times, last, step, slot = jax.tree.map(np.atleast_1d, nans)
    found = {}
    for i in np.flatnonzero(sum(times.values())):
        leaves = ", ".join(f"{leaf} ({number[i]:,.0f} times)" for leaf, number in times.items() if number[i])
        found[names[i]] = (
            f"{names[i]}{': ' * bool(names[i])}the environment's {leaves} is NaN, after {updates:,} updates, first in "
            f"slot {slot[i]} at step {steps - last[i] + step[i]:,}"
        )
    return found


def _counts(timestep: TimeStep) -> dict[str, jax.Array]:
    """How many NaNs each leaf of real numbers has, by its name: float32, of the shape of `step_type`."""
    counts, leading = {}, timestep.step_type.ndim
    for path, leaf in tree.flatten_with_path(timestep):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            axes = tuple(range(leading, leaf.ndim))
            counts[".".join(map(str, path))] = jnp.sum(jnp.isnan(leaf), axis=axes, dtype=jnp.float32)
    return counts


def _summed(times: Mapping[str, jax.Array]) -> Nans:
    """Sums over [T+1, B], of which the first row is before the T steps, and the place of the first."""
    found = jnp.stack(list(times.values())).any(axis=0)
    step = jnp.argmax(jnp.any(found, axis=1)).astype(jnp.int32)
    slot = jnp.argmax(found[step]).astype(jnp.int32)
    return Nans({name: jnp.sum(number) for name, number in times.items()}, jnp.int32(len(found) - 1), step, slot)
