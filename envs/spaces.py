"""Gymnasium's spaces as dm_env's specs, and values of the ones as values of the others.

See https://gymnasium.farama.org/api/spaces/.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from dm_env import specs
from gymnasium import spaces

from boonta.envs import base
from boonta.envs.spec_check import narrowed

MASKED = {"observation", "action_mask"}  # The parts of an observation of PettingZoo's or RLlib's with illegal actions.
SPACES = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
ALLOWED = ", ".join(space.__name__ for space in SPACES)


def env_spec(observation: Any, action: Any) -> base.EnvSpec:
    """The specs of an environment with these spaces; a `base.BoardView` where an observation has an action mask.

    Raises:
      ValueError: agents don't support one of them; the message shows it.
    """
    if not isinstance(action, SPACES):
        raise ValueError(f"action_space is {action}; allowed: {ALLOWED}")
    actions: Any = to_action_spec(action)
    if not is_masked(observation, action):
        return base.EnvSpec(to_spec(observation, "observation"), actions)
    view = to_spec(observation["observation"], "observation")
    return base.EnvSpec(base.BoardView.spec(view, actions.num_values), actions)


def is_masked(observation: Any, action: Any) -> bool:
    """Whether observations are a `Dict` of the "observation" and of an "action_mask" with a place for each action."""
    if not isinstance(observation, spaces.Dict) or not isinstance(action, spaces.Discrete):
        return False
    return set(observation) == MASKED and observation["action_mask"].shape == (int(action.n),)


def observed(observation: Any, action: Any, value: Any, last: Any) -> Any:
    """Converts an observation, or B of them as Gymnasium batches them, to one of `env_spec`.

    Args:
      observation, action: the spaces.
      value: the observation.
      last: whether the episode has ended, bool or bool [B]; every action is legal then.

    Raises:
      ValueError: an action mask allows no action.
    """
    if not is_masked(observation, action):
        return from_space(observation, value)
    legal = np.asarray(value["action_mask"], bool) | np.asarray(last, bool)[..., None]
    if not legal.any(axis=-1).all():
        raise ValueError(
            "the environment's action_mask allows no action; one at least must be 1 before an episode's end"
        )
    view = from_space(observation["observation"], value["observation"])
    return base.BoardView(view, legal, np.zeros(legal.shape[:-1], np.int32))


def to_spec(space: spaces.Space, name: str) -> Any:
    """Converts a gymnasium space to a dm_env spec, or to a nest of specs; numbers of 64 bits become those of 32.

    Raises:
      ValueError: there is no spec for it, or 32 bits don't hold a bound of integers.
    """
    if isinstance(space, spaces.Discrete):
        return specs.DiscreteArray(int(space.n), np.int32, name)
    if isinstance(space, spaces.Box):
        return narrowed(specs.BoundedArray(space.shape, space.dtype, space.low, space.high, name))
    if isinstance(space, spaces.MultiBinary):
        return specs.BoundedArray(space.shape, np.int8, 0, 1, name)
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(specs.DiscreteArray(int(n), np.int32, f"{name}.{i}") for i, n in enumerate(space.nvec.flat))
    if isinstance(space, spaces.Tuple):
        return tuple(to_spec(inner, f"{name}.{i}") for i, inner in enumerate(space))
    if isinstance(space, spaces.Dict):
        return {key: to_spec(inner, f"{name}.{key}") for key, inner in space.items()}
    raise ValueError(f"space of {name} is {space}; allowed: {ALLOWED}, and Dict and Tuple of them")


def to_action_spec(space: spaces.Space) -> specs.Array:
    """Converts a space of actions to a dm_env spec; the choices of a `MultiDiscrete` are one array."""
    if isinstance(space, spaces.MultiDiscrete):
        return specs.BoundedArray(space.shape, np.int32, 0, space.nvec - 1, "action")
    return to_spec(space, "action")


def from_space(space: spaces.Space, value: Any) -> Any:
    """Converts a value of a space, or B of them as Gymnasium batches them, to values of `to_spec(space)`.

    Raises:
      ValueError: a `Dict` or `Tuple` lacks a part.
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping) or not space.keys() <= value.keys():
            found = f"a dict of {sorted(value)}" if isinstance(value, Mapping) else type(value).__name__
            raise ValueError(f"the environment's observation is {found}; its space is a Dict of {sorted(space)}")
        return {key: from_space(inner, value[key]) for key, inner in space.items()}
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple) or len(value) != len(space):
            found = f"a tuple of {len(value)}" if isinstance(value, tuple) else type(value).__name__
            raise ValueError(f"the environment's observation is {found}; its space is a Tuple of {len(space)}")
        return tuple(from_space(inner, each) for inner, each in zip(space, value))
    if isinstance(space, spaces.MultiDiscrete):
        choices = np.asarray(value) - space.start
        rows = choices.reshape(*choices.shape[: choices.ndim - space.nvec.ndim], -1)  # [B, choices], or without B.
        return tuple(np.moveaxis(rows, -1, 0))
    return value - space.start if isinstance(space, spaces.Discrete) else value


def to_space(space: spaces.Space, action: np.ndarray) -> Any:
    """Converts an action of `to_action_spec(space)` to an action of the space."""
    return int(action) + int(space.start) if isinstance(space, spaces.Discrete) else to_spaces(space, action)


def to_spaces(space: spaces.Space, actions: np.ndarray) -> np.ndarray:
    """Converts B actions of `to_action_spec(space)` to actions of the space, batched as Gymnasium does.

    A bound of float32 may lie beyond the same bound of float64, so real numbers are clipped to the space's own.
    """
    actions = np.asarray(actions + _start(space), space.dtype)
    if isinstance(space, spaces.Box) and space.dtype.kind == "f":
        return np.clip(actions, space.low, space.high)
    return actions


def from_spaces(space: spaces.Space, actions: Any) -> np.ndarray:
    """Converts B actions of a space, as Gymnasium batches them, to actions of `to_action_spec(space)`."""
    return np.asarray(actions) - _start(space)


def _start(space: spaces.Space) -> Any:
    """The number of a space's first action, or those of several choices."""
    return space.start if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)) else 0
