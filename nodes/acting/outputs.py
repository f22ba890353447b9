"""What a policy's step returns, checked while it is traced: where it runs, that costs nothing.

`nodes.learning.outputs` checks an update's step in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from dm_env import specs

from boonta.agents.base import Nest, Policy
from boonta.envs.base import TimeStep


class OutputError(ValueError):
    """A policy or an update returns something else than `agents.base` says, or than the agent's tables need."""


def checked_step(policy: Policy, params: Nest, key: jax.Array, timestep: TimeStep, state: Nest) -> Any:
    """`policy.step`, whose results are refused if they don't fit the slots.

    A store takes one row of each slot from every leaf, so that a leaf without the slots' axis would be cut along
    another, and fail only in the learner, or never.

    Args:
      policy: the policy.
      params, key, timestep, state: the arguments of its step, for B slots.

    Returns:
      action [B, ...], extras [B, ...], and the state after the step.

    Raises:
      OutputError: the message names the part, what it is and what it must be.
    """
    slots = timestep.step_type.shape[0]
    _require_slots("initial_state", state, slots)
    out = policy.step(params, key, timestep, state)
    action, extras, after = three_of("the policy's step", out, "(action, extras, state)")
    if not hasattr(action, "shape"):
        raise OutputError(f"the policy's action is {shown(action)}; it must be an array [B, ...], here [{slots}, ...]")
    _require_slots("action", action, slots)
    _require_slots("extras", extras, slots)
    require_same("the policy's state", state, after)
    return action, extras, after


def three_of(step: str, out: Any, wanted: str) -> tuple[Any, Any, Any]:
    """The three values that a step has returned.

    Args:
      step: its name in messages.
      out: what it has returned.
      wanted: the values' names in messages.

    Raises:
      OutputError: it is no tuple of three.
    """
    if not isinstance(out, tuple) or len(out) != 3:
        found = f"{len(out)} values" if isinstance(out, tuple) else type(out).__name__
        raise OutputError(f"{step} returns {found}; it must return {wanted}")
    return out


def require_stored(extras: Nest) -> None:
    """Refuses None among what is stored with a step: JAX leaves it out of a nest, but writers without JAX don't.

    Raises:
      OutputError: the message names the leaf.
    """
    for name, leaf in _leaves("the policy's extras", extras, is_leaf=lambda leaf: leaf is None).items():
        if leaf is None:
            raise OutputError(f"{name} is None; it must be an array [B, ...], or left out")


def require_played(action: Any, wanted: specs.Array) -> None:
    """Refuses an agent whose actions an environment can't play, as `envs.actions.check_action` would in the first step.

    Args:
      action: shape and dtype of one slot's action.
      wanted: the environment's spec of it.

    Raises:
      OutputError: another shape, or real numbers for integers.
    """
    is_real = not np.issubdtype(action.dtype, np.integer)
    if action.shape != wanted.shape or (is_real and np.issubdtype(wanted.dtype, np.integer)):
        raise OutputError(
            f"the agent's actions are {shown(action)}, those of the environment are {shown(wanted)}; make the agent "
            "with the environment's spec"
        )


def _require_slots(what: str, nest: Nest, slots: int) -> None:
    for name, leaf in _leaves(f"the policy's {what}", nest).items():
        if getattr(leaf, "shape", ())[:1] != (slots,):
            raise OutputError(
                f"{name} is {shown(leaf)}; it must be an array [B, ...] with a row for each slot, here [{slots}, ...]"
            )


def require_same(what: str, before: Nest, after: Nest) -> None:
    """Refuses a state that a step makes another kind of nest.

    Args:
      what: the state's name in messages.
      before, after: the state before and after the step.

    Raises:
      OutputError: the message names the leaf, or all of them where they aren't the same ones.
    """
    olds, news = _leaves(what, before), _leaves(what, after)
    if olds.keys() != news.keys():
        raise OutputError(
            f"{what} has other leaves after a step, {list(news)}; it must have those of before, {list(olds)}"
        )
    for name, leaf in news.items():
        if shown(leaf) != shown(olds[name]):
            raise OutputError(f"{name} is {shown(leaf)} after a step; it must be as before, {shown(olds[name])}")


def _leaves(what: str, nest: Nest, is_leaf: Callable[[Any], bool] | None = None) -> dict[str, Any]:
    """The leaves by name."""
    found = jax.tree_util.tree_leaves_with_path(nest, is_leaf=is_leaf)
    return {what + jax.tree_util.keystr(path): leaf for path, leaf in found}


def shown(leaf: Any) -> str:
    """The dtype and shape of an array, such as float32[2, 3], or anything else as Python shows it."""
    return f"{leaf.dtype}{list(leaf.shape)}" if hasattr(leaf, "shape") else repr(leaf)
