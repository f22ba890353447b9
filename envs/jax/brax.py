"""Any brax environment by name: continuous control with rigid bodies.

See "Brax -- A Differentiable Physics Engine for Large Scale Rigid Body Simulation" (https://arxiv.org/abs/2106.13281).
brax is none of the project's dependencies.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from boonta.envs import base
from boonta.envs.jax.base import Game


class State(NamedTuple):
    """An episode: brax's own state, and int32 [], the steps taken."""

    world: Any
    steps: jax.Array


@dataclasses.dataclass(frozen=True)
class Brax(Game):
    """One brax environment, past its wrappers, whose last observation of an episode can't be seen.

    Actions are real numbers from -1 to 1. brax's programs are large: tracing and compiling one takes a minute or more.

    Attributes:
      env: as `brax.envs.get_environment` takes it: "ant", "halfcheetah".
      backend: brax's physics: "generalized", "positional", "spring", "mjx"; None for the environment's own.
      max_episode_steps: truncates (discount 1 on LAST) after so many steps.
    """

    env: str
    backend: str | None = None
    max_episode_steps: int = 1000

    def __post_init__(self) -> None:
        if self.max_episode_steps < 1:
            raise ValueError(f"max_episode_steps is {self.max_episode_steps}; it must be at least 1")
        _world(self.env, self.backend)

    @property
    def spec(self) -> base.EnvSpec:
        world = _world(self.env, self.backend)
        sizes = (world.observation_size,), (world.action_size,)
        return base.EnvSpec(
            observations=specs.Array(sizes[0], np.float32, "observation"),
            actions=specs.BoundedArray(sizes[1], np.float32, -1.0, 1.0, "action"),
        )

    def reset(self, key: jax.Array) -> State:
        return State(_world(self.env, self.backend).reset(key), jnp.int32(0))

    def move(
        self, key: jax.Array, state: State, action: jax.Array
    ) -> tuple[State, jax.Array, jax.Array | bool, jax.Array | bool]:
        world = _world(self.env, self.backend).step(state.world, jnp.clip(action, -1.0, 1.0))
        steps = state.steps + 1
        return State(world, steps), world.reward, world.done > 0, steps >= self.max_episode_steps

    def observe(self, state: State) -> jax.Array:
        return state.world.obs


@functools.cache
def _world(name: str, backend: str | None) -> Any:
    """brax's environment; made outside of whatever is being traced, for its constants outlive that.

    Raises:
      ImportError: brax is not installed.
      ValueError: there is none of this name.
    """
    with jax.ensure_compile_time_eval():
        try:
            from brax import envs
        except ImportError as error:
            raise ImportError(
                f"envs.jax.brax needs brax, which can't be imported ({error}); pip install brax"
            ) from error
        try:
            return envs.get_environment(name, **({} if backend is None else {"backend": backend}))
        except KeyError as error:
            raise ValueError(f"env is {name!r}, which brax does not know") from error
