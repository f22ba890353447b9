"""Any gymnax environment with plain spaces, by name.

See "gymnax: A JAX-based Reinforcement Learning Environment Library" (https://github.com/RobertTLange/gymnax).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from dm_env import specs

from boonta.envs import base
from boonta.envs.jax import sketches
from boonta.envs.jax.base import Game

_NO_STEP_LIMIT = 2**30  # More env steps than any episode has.
_SKETCHES = {
    "CartPole-v1": sketches.cart_pole,
    "MountainCar-v0": sketches.mountain_car,
    "MountainCarContinuous-v0": sketches.mountain_car,
    "Pendulum-v1": sketches.pendulum,
}


class State(NamedTuple):
    """The state of an episode.

    Attributes:
      env: gymnax's own state.
      observation: the observation of that state. It is kept because gymnax returns it only together with the state,
        and may draw it at random.
    """

    env: Any
    observation: jax.Array


@dataclasses.dataclass(frozen=True)
class Gymnax(Game):
    """One gymnax environment without gymnax's auto-reset, which hides the last observation of an episode.

    LAST has discount 0 where the rules end the episode, and discount 1 where only the step limit does, which gymnax
    doesn't distinguish. Importing gymnax takes seconds, because it imports plotting packages.

    Attributes:
      env: a name for `gymnax.make`, such as "CartPole-v1" or "Pendulum-v1".
      max_episode_steps: replaces gymnax's own limit; None keeps it.
      params: other parameters of the environment to change, such as `{"gravity": 3.7}`.
    """

    env: str
    max_episode_steps: int | None = None
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.max_episode_steps is not None and self.max_episode_steps < 1:
            raise ValueError(f"max_episode_steps is {self.max_episode_steps}; it must be at least 1, or None")
        _, defaults = _make(self.env)
        known = [field.name for field in dataclasses.fields(defaults)]
        for name in self.params:
            if name not in known or name == "max_steps_in_episode":
                allowed = ", ".join(sorted(set(known) - {"max_steps_in_episode"}))
                raise ValueError(f"params has {name!r}, which is not a parameter of {self.env}; allowed: {allowed}")
        self.spec  # noqa: B018  # This raises ValueError for spaces that agents don't support.
        try:
            _after_a_step(self)
        except Exception as error:  # It is from gymnax's own code.
            raise ValueError(f"env is {self.env!r}, whose steps fail: {type(error).__name__}: {error}") from error

    @property
    def spec(self) -> base.EnvSpec:
        env, params = self._made()
        with jax.ensure_compile_time_eval():
            return base.EnvSpec(
                observations=_to_spec(env.observation_space(params), "observation"),
                actions=_to_spec(env.action_space(params), "action"),
            )

    def reset(self, key: jax.Array) -> State:
        return self._typed(self._reset(key))

    def move(
        self, key: jax.Array, state: State, action: jax.Array
    ) -> tuple[State, jax.Array, jax.Array | bool, jax.Array | bool]:
        env, params = self._made()
        moved, reward, over = self._step(key, state.env, action)
        terminated = over & env.is_terminal(moved.env, params.replace(max_steps_in_episode=_NO_STEP_LIMIT))
        return self._typed(moved), jnp.reshape(reward, ()), jnp.reshape(terminated, ()), jnp.reshape(over, ())

    def observe(self, state: State) -> jax.Array:
        return state.observation

    def draw(self, state: Any) -> np.ndarray | None:
        sketch = _SKETCHES.get(self.env)
        return sketch(state.game.env) if sketch else None

    def _made(self) -> tuple[Any, Any]:
        """Returns gymnax's environment and its parameters, as set."""
        env, params = _make(self.env)
        params = params.replace(**self.params)
        limit = self.max_episode_steps
        return env, params if limit is None else params.replace(max_steps_in_episode=limit)

    def _reset(self, key: jax.Array) -> State:
        env, params = self._made()
        observation, state = env.reset_env(key, params)
        return State(state, observation)

    def _step(self, key: jax.Array, state: Any, action: jax.Array) -> tuple[State, jax.Array, jax.Array]:
        env, params = self._made()
        observation, state, reward, over, _ = env.step_env(key, state, action, params)
        return State(state, observation), reward, over

    def _typed(self, state: State) -> State:
        """Gives every leaf the shape and dtype that it has after a step, because gymnax begins with Python numbers."""
        wanted = _after_a_step(self)
        typed = jax.tree.map(lambda leaf, like: jnp.reshape(jnp.asarray(leaf, like.dtype), like.shape), state, wanted)
        return typed._replace(observation=typed.observation.astype(self.spec.observations.dtype))


@functools.cache
def _after_a_step(settings: Gymnax) -> State:
    """Returns the shapes and dtypes, `jax.ShapeDtypeStruct`, of the state after a step."""
    key = jax.eval_shape(lambda: jax.random.PRNGKey(0))
    actions = settings.spec.actions
    action = jax.ShapeDtypeStruct(actions.shape, actions.dtype)
    began = jax.eval_shape(settings._reset, key)
    once = jax.eval_shape(settings._step, key, began.env, action)[0]
    return jax.eval_shape(settings._step, key, once.env, action)[0]


@functools.cache
def _make(name: str) -> tuple[Any, Any]:
    """Makes gymnax's environment and default parameters, outside of any trace, because the cache keeps them.

    Raises:
      ValueError: the name is unknown, or belongs to `envs.jax.minatar`; or gymnax can't make its environment.
    """
    if name.endswith("-MinAtar"):
        raise ValueError(f"env is {name!r}; allowed: envs.jax.minatar, which separates truncation from termination")
    with jax.ensure_compile_time_eval():
        import gymnax

        known = gymnax.registered_envs
        if name not in known:
            raise ValueError(f"env is {name!r}, which gymnax does not know; {base.suggest(name, known)}")
        try:
            return gymnax.make(name)
        except Exception as error:  # Some download what they show.
            raise ValueError(f"env is {name!r}, which can't be made: {type(error).__name__}: {error}") from error


def _to_spec(space: Any, name: str) -> specs.Array:
    """Converts a gymnax space to a dm_env spec, without bounds for observations, which gymnax doesn't always keep."""
    kind = type(space).__name__
    if kind == "Discrete":
        return specs.DiscreteArray(int(space.n), np.int32, name)
    if kind == "Box" and name == "observation":
        return specs.Array(tuple(space.shape), np.float32, name)
    if kind == "Box":
        low, high = (np.broadcast_to(np.asarray(side, np.float32), space.shape) for side in (space.low, space.high))
        return specs.BoundedArray(tuple(space.shape), np.float32, low, high, name)
    raise ValueError(f"space of {name} is a {kind}; allowed: Box, Discrete")
