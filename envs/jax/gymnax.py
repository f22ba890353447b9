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

_NEVER = 2**30  # env steps
_SKETCHES = {"CartPole-v1": sketches.cart_pole, "Pendulum-v1": sketches.pendulum}


class State(NamedTuple):
    """An episode.

    Attributes:
      env: gymnax's own state.
      observation: of it, for gymnax may draw observations and gives them with the state alone.
    """

    env: Any
    observation: jax.Array


@dataclasses.dataclass(frozen=True)
class Gymnax(Game):
    """One gymnax environment, past its own auto-reset, whose last observation of an episode can't be seen.

    An end by the rules is discount 0 on LAST; the limit on steps alone, which gymnax counts among the ends, discount 1.
    Importing gymnax takes seconds, for it imports what it draws with.

    Attributes:
      env: as `gymnax.make` takes it: "CartPole-v1", "Pendulum-v1".
      max_episode_steps: instead of gymnax's own limit; None keeps that.
      params: others of the environment's parameters to change, such as `{"gravity": 3.7}`.
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
        self.spec  # noqa: B018  # raises where a space is none of those that agents can take

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
        terminated = over & env.is_terminal(moved.env, params.replace(max_steps_in_episode=_NEVER))
        return self._typed(moved), jnp.reshape(reward, ()), jnp.reshape(terminated, ()), jnp.reshape(over, ())

    def observe(self, state: State) -> jax.Array:
        return state.observation

    def draw(self, state: Any) -> np.ndarray | None:
        sketch = _SKETCHES.get(self.env)
        return sketch(state.game.env) if sketch else None

    def _made(self) -> tuple[Any, Any]:
        """gymnax's environment and its parameters."""
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
        """Gives every leaf the shape and dtype that it has after a step: gymnax begins with Python numbers."""
        wanted = _after_a_step(self)
        typed = jax.tree.map(lambda leaf, like: jnp.reshape(jnp.asarray(leaf, like.dtype), like.shape), state, wanted)
        return typed._replace(observation=typed.observation.astype(self.spec.observations.dtype))


@functools.cache
def _after_a_step(settings: Gymnax) -> State:
    """The shapes and dtypes, `jax.ShapeDtypeStruct`, of the state after a step."""
    key = jax.eval_shape(lambda: jax.random.PRNGKey(0))
    actions = settings.spec.actions
    action = jax.ShapeDtypeStruct(actions.shape, actions.dtype)
    began = jax.eval_shape(settings._reset, key)
    once = jax.eval_shape(settings._step, key, began.env, action)[0]
    return jax.eval_shape(settings._step, key, once.env, action)[0]


@functools.cache
def _make(name: str) -> tuple[Any, Any]:
    """gymnax's environment and default parameters; made outside of whatever is being traced, which they outlive.

    Raises:
      ValueError: there is none of this name, or we have it elsewhere.
    """
    if name.endswith("-MinAtar"):
        raise ValueError(f"env is {name!r}; allowed: envs.jax.minatar, which tells truncation from termination")
    with jax.ensure_compile_time_eval():
        import gymnax

        known = gymnax.registered_envs
        if name not in known:
            raise ValueError(f"env is {name!r}, which gymnax does not know; {base.suggest(name, known)}")
        return gymnax.make(name)


def _to_spec(space: Any, name: str) -> specs.Array:
    """The dm_env spec of a gymnax space. Observations keep no bounds: gymnax's are not always kept to."""
    kind = type(space).__name__
    if kind == "Discrete":
        return specs.DiscreteArray(int(space.n), np.int32, name)
    if kind == "Box" and name == "observation":
        return specs.Array(tuple(space.shape), np.float32, name)
    if kind == "Box":
        low, high = (np.broadcast_to(np.asarray(side, np.float32), space.shape) for side in (space.low, space.high))
        return specs.BoundedArray(tuple(space.shape), np.float32, low, high, name)
    raise ValueError(f"space of {name} is a {kind}; allowed: Box, Discrete")
