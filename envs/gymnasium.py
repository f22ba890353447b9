"""Any gymnasium environment with plain spaces.

See "Gymnasium: A Standard Interface for Reinforcement Learning Environments" (https://arxiv.org/abs/2407.17032) and
https://gymnasium.farama.org/api/env/.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import dm_env
import gymnasium
import numpy as np
from dm_env import specs
from gymnasium import spaces

from boonta.envs import base

DRAWN = "rgb_array"  # Gymnasium's name for pictures as arrays.
SPACES = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
ALLOWED = ", ".join(space.__name__ for space in SPACES)


@dataclasses.dataclass(frozen=True)
class Gymnasium:
    """B copies of one gymnasium environment, stepped one after another in this process.

    `terminated` becomes discount 0 on LAST; `truncated` alone becomes discount 1. A `Discrete` space becomes 0 to n-1
    whatever its `start`, and float64 becomes float32. A `Dict` of observations stays a dict and a `Tuple` a tuple; a
    `MultiDiscrete` becomes a tuple with a number for each of its entries, as an action one array of them.

    It is drawn as the environment draws itself, where it knows `render_mode="rgb_array"`; a callable is given that mode
    by `kwargs`.

    Attributes:
      env: an id for `gymnasium.make`, or a callable that makes a `gymnasium.Env`. To be sent to another process the
        callable must be picklable: a class or a function of a module, not a lambda.
      kwargs: keyword arguments of `gymnasium.make` or of the callable.
    """

    env: str | Callable[..., gymnasium.Env]
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def spec(self) -> base.EnvSpec:
        """Reads the spaces of a temporary copy of the environment.

        Raises:
          ValueError: agents don't support one of the spaces, which the message shows; or Gymnasium has no such
            environment, and it lists near matches; or the environment needs a package that is missing, which it names.
        """
        return self._copied[0]

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        spec, drawn = self._copied
        slots = [_Slot(self._make(drawn), int(slot_seed)) for slot_seed in base.slot_seeds(num_envs, seed)]
        return _Batch(slots, spec)

    @functools.cached_property
    def _copied(self) -> tuple[base.EnvSpec, Mapping[str, str]]:
        """The spec, and the keyword argument with which it is drawn, from a temporary copy.

        There is no such argument where it can't be drawn, or isn't a registered environment.
        """
        with contextlib.closing(self._made()) as env:
            if not isinstance(env.action_space, SPACES):
                raise ValueError(f"action_space is {env.action_space}; allowed: {ALLOWED}")
            spec = base.EnvSpec(
                observations=_to_spec(env.observation_space, "observation"),
                actions=_to_action_spec(env.action_space),
            )
            is_drawn = isinstance(self.env, str) and DRAWN in env.metadata.get("render_modes", ())
            return spec, {"render_mode": DRAWN} if is_drawn else {}

    def _made(self) -> gymnasium.Env:
        """A copy of the environment; of a registered one, what stands in its way is a ValueError."""
        try:
            return self._make({})
        except gymnasium.error.Error as error:
            if not isinstance(self.env, str):
                raise
            if self.env in gymnasium.registry:
                raise ValueError(str(error)) from error
            cause, _, _ = str(error).partition(" Did you mean")  # Its own hint has no versions.
            raise ValueError(f"{cause} {base.suggest(self.env, gymnasium.registry)}") from error

    def _make(self, more: Mapping[str, str]) -> gymnasium.Env:
        kwargs = {**more, **self.kwargs}
        return gymnasium.make(self.env, **kwargs) if isinstance(self.env, str) else self.env(**kwargs)


class _Batch(base.LoopedEnv):
    """Environments that may draw themselves."""

    def render(self) -> np.ndarray | None:
        pictures = [
            picture for slot in self._envs if isinstance(slot, _Slot) and (picture := slot.render()) is not None
        ]
        return np.stack(pictures) if len(pictures) == self.num_envs else None


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
        return _to_action_spec(self._env.action_space)

    def render(self) -> np.ndarray | None:
        """The environment's picture, uint8 [H, W, 3]; None where it draws none."""
        if self._env.render_mode != DRAWN:
            return None
        try:
            return np.asarray(self._env.render(), np.uint8)
        except gymnasium.error.DependencyNotInstalled as error:
            warnings.warn(f"{self._env.spec and self._env.spec.id} is not drawn: {error}", stacklevel=2)
            return None

    def close(self) -> None:
        self._env.close()


def _to_spec(space: spaces.Space, name: str) -> Any:
    """Converts a gymnasium space to a dm_env spec, or to a nest of specs."""
    if isinstance(space, spaces.Discrete):
        return specs.DiscreteArray(int(space.n), np.int32, name)
    if isinstance(space, spaces.Box):
        dtype = np.float32 if space.dtype == np.float64 else space.dtype
        with np.errstate(over="ignore"):  # A float64 bound beyond float32 becomes infinite.
            return specs.BoundedArray(space.shape, dtype, space.low.astype(dtype), space.high.astype(dtype), name)
    if isinstance(space, spaces.MultiBinary):
        return specs.BoundedArray(space.shape, np.int8, 0, 1, name)
    if isinstance(space, spaces.MultiDiscrete):
        return tuple(specs.DiscreteArray(int(n), np.int32, f"{name}.{i}") for i, n in enumerate(space.nvec.flat))
    if isinstance(space, spaces.Tuple):
        return tuple(_to_spec(inner, f"{name}.{i}") for i, inner in enumerate(space))
    if isinstance(space, spaces.Dict):
        return {key: _to_spec(inner, f"{name}.{key}") for key, inner in space.items()}
    raise ValueError(f"space of {name} is {space}; allowed: {ALLOWED}, and Dict and Tuple of them")


def _to_action_spec(space: spaces.Space) -> specs.Array:
    """Converts a space of actions to a dm_env spec; the choices of a `MultiDiscrete` are one array."""
    if isinstance(space, spaces.MultiDiscrete):
        return specs.BoundedArray(space.shape, np.int32, 0, space.nvec - 1, "action")
    return _to_spec(space, "action")


def _from_space(space: spaces.Space, value: Any) -> Any:
    """Converts a value of a gymnasium space to a value of `_to_spec(space)`."""
    if isinstance(space, spaces.Dict):
        return {key: _from_space(inner, value[key]) for key, inner in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_from_space(inner, each) for inner, each in zip(space, value, strict=True))
    if isinstance(space, spaces.MultiDiscrete):
        return tuple((np.asarray(value) - space.start).flat)
    return value - space.start if isinstance(space, spaces.Discrete) else value


def _to_space(space: spaces.Space, action: np.ndarray) -> Any:
    """Converts an action of `_to_spec(space)` to an action of the gymnasium space."""
    if isinstance(space, spaces.Discrete):
        return int(action) + int(space.start)
    start = space.start if isinstance(space, spaces.MultiDiscrete) else 0
    return np.asarray(action + start, space.dtype)
