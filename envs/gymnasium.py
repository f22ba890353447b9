"""Any gymnasium environment with plain spaces.

See "Gymnasium: A Standard Interface for Reinforcement Learning Environments" (https://arxiv.org/abs/2407.17032) and
https://gymnasium.farama.org/api/env/.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import dm_env
import gymnasium
import numpy as np
from dm_env import specs
from gymnasium import spaces

from boonta.envs import base


@dataclasses.dataclass(frozen=True)
class Gymnasium:
    """B copies of one gymnasium environment, stepped one after another in this process.

    `terminated` becomes discount 0 on LAST; `truncated` alone becomes discount 1. A `Discrete` space becomes 0 to n-1
    whatever its `start`, float64 becomes float32, and a `Dict` of observations stays a dict.

    Attributes:
      env: an id for `gymnasium.make`, or a callable that makes a `gymnasium.Env`. To be sent to another process the
        callable must be picklable: a class or a function of a module, not a lambda.
      kwargs: keyword arguments of `gymnasium.make` or of the callable.
    """

    env: str | Callable[..., gymnasium.Env]
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def spec(self) -> base.EnvSpec:
        """Reads the spaces of a temporary copy of the environment.

        Raises:
          ValueError: agents don't support one of the spaces; the message shows it.
        """
        env = self._make()
        try:
            if not isinstance(env.action_space, (spaces.Box, spaces.Discrete)):
                raise ValueError(f"action_space is {env.action_space}; allowed: Box, Discrete")
            return base.EnvSpec(
                observations=_to_spec(env.observation_space, "observation"),
                actions=_to_spec(env.action_space, "action"),
            )
        finally:
            env.close()

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        seeds = base.slot_seeds(num_envs, seed)
        return base.LoopedEnv([_Slot(self._make(), int(slot_seed)) for slot_seed in seeds], self.spec)

    def _make(self) -> gymnasium.Env:
        return gymnasium.make(self.env, **self.kwargs) if isinstance(self.env, str) else self.env(**self.kwargs)


class _Slot(dm_env.Environment):
    """One gymnasium environment as a dm_env environment; `base.LoopedEnv` resets it after LAST."""

    def __init__(self, env: gymnasium.Env, seed: int):
        self._env = env
        self._seed: int | None = seed

    def reset(self) -> dm_env.TimeStep:
        observation, _ = self._env.reset(seed=self._seed)
        self._seed = None  # Later resets go on with the environment's own generator.
        return dm_env.restart(_from_space(self._env.observation_space, observation))

    def step(self, action: Any) -> dm_env.TimeStep:
        observation, reward, terminated, truncated, _ = self._env.step(_to_space(self._env.action_space, action))
        observation = _from_space(self._env.observation_space, observation)
        if terminated:
            return dm_env.termination(reward, observation)
        return dm_env.truncation(reward, observation) if truncated else dm_env.transition(reward, observation)

    def observation_spec(self) -> Any:
        return _to_spec(self._env.observation_space, "observation")

    def action_spec(self) -> specs.Array:
        return _to_spec(self._env.action_space, "action")

    def close(self) -> None:
        self._env.close()


def _to_spec(space: spaces.Space, name: str) -> Any:
    """Converts a gymnasium space to a dm_env spec, or to a dict of specs."""
    if isinstance(space, spaces.Discrete):
        return specs.DiscreteArray(int(space.n), np.int32, name)
    if isinstance(space, spaces.Box):
        dtype = np.float32 if space.dtype == np.float64 else space.dtype
        with np.errstate(over="ignore"):  # A float64 bound beyond float32 becomes infinite.
            return specs.BoundedArray(space.shape, dtype, space.low.astype(dtype), space.high.astype(dtype), name)
    if isinstance(space, spaces.Dict):
        return {key: _to_spec(inner, f"{name}.{key}") for key, inner in space.items()}
    raise ValueError(f"space of {name} is {space}; allowed: Box, Discrete, and for observations a Dict of them")


def _from_space(space: spaces.Space, value: Any) -> Any:
    """Converts a value of a gymnasium space to a value of `_to_spec(space)`."""
    if isinstance(space, spaces.Dict):
        return {key: _from_space(inner, value[key]) for key, inner in space.items()}
    return value - space.start if isinstance(space, spaces.Discrete) else value


def _to_space(space: spaces.Space, action: np.ndarray) -> Any:
    """Converts an action of `_to_spec(space)` to an action of the gymnasium space."""
    if isinstance(space, spaces.Discrete):
        return int(action) + int(space.start)
    return np.asarray(action, space.dtype)
