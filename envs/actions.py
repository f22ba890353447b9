"""Actions within a spec: how envs check and clip them before they play them, and random ones.

Glossary of shapes: B batch (env slots stepped together).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from dm_env import specs

from boonta.envs.base import LAST, BoardView, TimeStep


def check_action(action: Any, spec: specs.Array, num_envs: int) -> np.ndarray:
    """Refuses an invalid action, with which simulators would return nonsense or hang; clips real numbers to the bounds.

    Args:
      action: [B, ...], anything that numpy can convert to an array.
      spec: spec of one slot's action.
      num_envs: B.

    Returns:
      The action as a numpy array within the spec's bounds.

    Raises:
      ValueError: wrong shape; an integer action that is not an integer, or out of range; a real one that is NaN.
    """
    action = np.asarray(action)
    shape = (num_envs, *spec.shape)
    if action.shape != shape:
        raise ValueError(f"action has shape {action.shape}; it must be {shape}")
    integers = np.issubdtype(spec.dtype, np.integer)
    if integers and not np.issubdtype(action.dtype, np.integer):
        raise ValueError(f"action has dtype {action.dtype}; a discrete action must be an integer")
    if not isinstance(spec, specs.BoundedArray):
        return action
    if not integers and not np.isnan(action).any():
        return np.clip(action, spec.minimum, spec.maximum)
    invalid = (action < spec.minimum) | (action > spec.maximum) if integers else np.isnan(action)
    slots = np.flatnonzero(invalid.reshape(num_envs, -1).any(axis=1))
    if slots.size:
        raise ValueError(f"action of slot {slots[0]} is {action[slots[0]]}; allowed: {_range(spec)}")
    return action


def check_legal(action: np.ndarray, timestep: TimeStep | None) -> None:
    """Refuses an action that the time step says is illegal; there is nothing to check where it has no mask.

    Args:
      action: [B], within the spec.
      timestep: the env's last time step, whose slots at LAST ignore the action; None before the first.

    Raises:
      ValueError: an action is illegal; the message has the slot and its legal actions.
    """
    if timestep is None or not isinstance(timestep.observation, BoardView):
        return
    legal = timestep.observation.legal  # bool [B, A]
    illegal = ~legal[np.arange(len(action)), action] & (timestep.step_type != LAST)
    if illegal.any():
        slot = int(np.argmax(illegal))
        allowed = np.flatnonzero(legal[slot]).tolist()
        raise ValueError(f"action of slot {slot} is {action[slot]}, which is illegal there; legal: {allowed}")


def random_actions(spec: specs.BoundedArray, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draws actions [*size, ...] within the spec; a missing bound is 2 away from the other one, or -1 or 1."""
    low, high = _bounds(spec)
    if np.issubdtype(spec.dtype, np.integer):
        return rng.integers(low, high, (*size, *spec.shape), spec.dtype, endpoint=True)
    return rng.uniform(low, high, (*size, *spec.shape)).astype(spec.dtype)


def other_actions(spec: specs.BoundedArray, actions: np.ndarray) -> np.ndarray:
    """Returns a different action for each action [..., *shape] within the spec."""
    low, high = _bounds(spec)
    if np.issubdtype(spec.dtype, np.integer):
        return (low + (actions - low + 1) % (high - low + 1)).astype(spec.dtype)
    return (low + high - actions).astype(spec.dtype)


def beyond_bounds(spec: specs.BoundedArray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Moves actions [..., *shape] to a bound, the nearer one of two, and 1 beyond it; without a bound they stay."""
    low = actions < (np.nan_to_num(spec.minimum) + np.nan_to_num(spec.maximum)) / 2
    bound = np.where(low, spec.minimum, spec.maximum)
    is_bound = np.isfinite(bound)
    beyond = bound + np.where(low, -1, 1)
    return tuple(np.where(is_bound, moved, actions).astype(spec.dtype) for moved in (bound, beyond))  # type: ignore


def _bounds(spec: specs.BoundedArray) -> tuple[np.ndarray, np.ndarray]:
    low = np.where(np.isfinite(spec.minimum), spec.minimum, np.where(np.isfinite(spec.maximum), spec.maximum - 2, -1))
    high = np.where(np.isfinite(spec.maximum), spec.maximum, low + 2)
    return low.astype(spec.dtype), high.astype(spec.dtype)


def _range(spec: specs.BoundedArray) -> str:
    """The spec's bounds as a message has them; one number for each where they are all equal."""
    low, high = (np.unique(bound) if np.unique(bound).size == 1 else bound for bound in (spec.minimum, spec.maximum))
    return f"{low.item() if low.size == 1 else low} to {high.item() if high.size == 1 else high}"
