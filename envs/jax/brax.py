"""Any brax environment by name: continuous control of rigid bodies.

See "Brax -- A Differentiable Physics Engine for Large Scale Rigid Body Simulation" (https://arxiv.org/abs/2106.13281).
brax is not a dependency of this project; install it yourself.
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
    """The state of an episode.

    Attributes:
      inner: brax's own state.
      steps: int32 [], the steps taken.
    """

    inner: Any
    steps: jax.Array


@dataclasses.dataclass(frozen=True)
class Brax(Game):
    """One brax environment without brax's auto-reset wrapper, which hides the last observation of an episode.

    Actions are real numbers from -1 to 1. brax's programs are large: tracing and compiling one takes a minute or more.

    Attributes:
      env: a name for `brax.envs.get_environment`, such as "ant" or "halfcheetah".
      backend: brax's physics: "generalized", "positional", "spring", "mjx"; None for the environment's default.
      max_episode_steps: truncates (discount 1 on LAST) after this many steps.
    """

    env: str
    backend: str | None = None
    max_episode_steps: int = 1000

    def __post_init__(self) -> None:
        if self.max_episode_steps < 1:
            raise ValueError(f"max_episode_steps is {self.max_episode_steps}; it must be at least 1")
        _make(self.env, self.backend)

    @property
    def spec(self) -> base.EnvSpec:
        env = _make(self.env, self.backend)
        sizes = (env.observation_size,), (env.action_size,)
        return base.EnvSpec(
            observations=specs.Array(sizes[0], np.float32, "observation"),
            actions=specs.BoundedArray(sizes[1], np.float32, -1.0, 1.0, "action"),
        )

    def reset(self, key: jax.Array) -> State:
        return State(_make(self.env, self.backend).reset(key), jnp.int32(0))

    def move(
        self, key: jax.Array, state: State, action: jax.Array
    ) -> tuple[State, jax.Array, jax.Array | bool, jax.Array | bool]:
        inner = _make(self.env, self.backend).step(state.inner, action)
        steps = state.steps + 1
        return State(inner, steps), inner.reward, inner.done > 0, steps >= self.max_episode_steps

    def observe(self, state: State) -> jax.Array:
        return state.inner.obs


@functools.cache
def _make(name: str, backend: str | None) -> Any:
    """Makes brax's environment, outside of any trace, because the cache keeps its constants.

    Raises:
      ImportError: brax is not installed.
      ValueError: the name is unknown.
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
