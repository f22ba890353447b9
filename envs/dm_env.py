"""Any dm_env environment, which is what Acme's agents take, as one of ours. The reverse is `envs/one_slot.py`.

See "dm_env: A Python interface for reinforcement learning environments" (https://github.com/google-deepmind/dm_env).

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import dm_env
import numpy as np
import tree
from dm_env import specs

from boonta.envs import base
from boonta.envs.looped import LoopedEnv
from boonta.envs.names import signature_of
from boonta.envs.processes import InProcesses
from boonta.envs.spec_check import narrowed


@dataclasses.dataclass(frozen=True)
class DmEnv:
    """B copies of one dm_env environment, stepped one after another, or by several processes.

    Numbers of 64 bits become those of 32, and a discrete action becomes int32. `make` may wrap its environment in
    dm_env wrappers. It is drawn by the environment's method `render`, if it has one that returns uint8 [H, W, 3]. Its
    method `episode_metrics`, if it has one, gives numbers of an episode besides its return, see `LoopedEnv`.

    Attributes:
      make: `(seed=…, **kwargs) -> dm_env.Environment`, called once per slot with a seed of its own. To be sent to
        another process it must be picklable: a class or a function of a module, not a lambda.
      kwargs: keyword arguments of `make`.
      workers: processes that step the slots at the same time, see `envs.processes`; with 0, this one steps them.
    """

    make: Callable[..., dm_env.Environment]
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    workers: int = dataclasses.field(default=0, metadata=base.SAME_STEPS)

    def __post_init__(self) -> None:
        if not callable(self.make):
            raise ValueError(f"make is a {type(self.make).__name__}; it must be a class or function that makes one")
        signature = signature_of(self.make)
        try:
            if signature is not None:
                signature.bind(seed=0, **self.kwargs)
        except TypeError as error:
            called = f"{self.make} is called with seed=… and kwargs {dict(self.kwargs)}"
            raise ValueError(f"{called}: {error}; a function around it may leave out what it doesn't take") from error

    @functools.cached_property
    def spec(self) -> base.EnvSpec:
        """Reads the specs from a temporary copy of the environment.

        Raises:
          ValueError: agents don't support the action spec or the reward spec, or 32 bits don't hold a bound; the
            message shows it.
        """
        env = self._make(0)
        try:
            actions, rewards = env.action_spec(), env.reward_spec()
            if not isinstance(actions, specs.BoundedArray):
                raise ValueError(f"action_spec is {actions}; allowed: DiscreteArray, BoundedArray")
            if not isinstance(rewards, specs.Array) or rewards.shape:
                raise ValueError(f"reward_spec is {rewards}; allowed: a scalar")
            return base.EnvSpec(
                observations=tree.map_structure(narrowed, env.observation_spec()), actions=narrowed(actions)
            )
        finally:
            env.close()

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        if self.workers:
            return InProcesses(dataclasses.replace(self, workers=0), self.workers)(num_envs, seed)
        return LoopedEnv(self.slots(num_envs, seed), self.spec)

    def slots(self, num_envs: int, seed: int) -> list[dm_env.Environment]:
        """Makes the copies, each with a seed of its own."""
        return [_Slot(self._make(int(slot_seed))) for slot_seed in base.slot_seeds(num_envs, seed)]

    def _make(self, seed: int) -> dm_env.Environment:
        return self.make(seed=seed, **self.kwargs)


class _Slot(dm_env.Environment):
    """One environment, whose actions are converted to the dtype of its own spec, and are within its own bounds."""

    def __init__(self, env: dm_env.Environment):
        self._env = env
        self._actions = env.action_spec()
        self.steps_per_s = getattr(env, "steps_per_s", None)

    def reset(self) -> dm_env.TimeStep:
        return self._env.reset()

    def step(self, action: Any) -> dm_env.TimeStep:
        action = np.asarray(action, self._actions.dtype)
        if action.dtype.kind == "f":  # A bound of float32 may lie beyond the same bound of float64.
            action = np.clip(action, self._actions.minimum, self._actions.maximum)
        return self._env.step(action[()])

    def observation_spec(self) -> Any:
        return self._env.observation_spec()

    def action_spec(self) -> specs.Array:
        return self._env.action_spec()

    def render(self) -> np.ndarray | None:
        return self._env.render() if hasattr(self._env, "render") else None

    def episode_metrics(self) -> Mapping[str, Any]:
        return self._env.episode_metrics() if hasattr(self._env, "episode_metrics") else {}

    def close(self) -> None:
        self._env.close()
