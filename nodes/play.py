"""A policy playing a batch of environments: what actors, evaluators, arenas and `programs.play` have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agents.base import Agent, Policy, Steps
from envs.base import BatchedEnv, EnvSpec, TimeStep
from nodes.stopwatch import Stopwatch

Nest = Any
Act = Callable[[Nest, Any, int, TimeStep, Nest], tuple[Any, Nest, Nest]]


class Acting:
    """A policy within a stream of time steps, of which it must see every one: its state, and its randomness.

    Args:
      policy: pure functions.
      act: `jit_policy(policy)`; given, so that several streams share its compilation.
      num_envs: B, of the time steps.
      seed: of the policy's randomness.
      stopwatch: times acting.
    """

    def __init__(self, policy: Policy, act: Act, num_envs: int, seed: int, stopwatch: Stopwatch):
        self._act = act
        self._stopwatch = stopwatch
        self._key = jax.random.PRNGKey(seed)
        self._state = policy.initial_state(num_envs)
        self._steps = 0

    def __call__(self, params: Nest, timestep: TimeStep) -> tuple[np.ndarray, Nest]:
        """The action in this time step [B], and its extras."""
        with self._stopwatch("acting"):
            out = self._act(params, self._key, self._steps, timestep, self._state)
            action, extras = jax.device_get(out[:2])
            self._state = out[2]
        self._steps += 1
        return action, extras


class Play:
    """A policy and the environments it plays.

    Args:
      env: the environments, B slots.
      policy, act, seed, stopwatch: see `Acting`; stepping is timed as well.

    Attributes:
      timestep: the one to act on next.
    """

    def __init__(self, env: BatchedEnv, policy: Policy, act: Act, seed: int, stopwatch: Stopwatch):
        self.env = env
        self.timestep = env.reset()
        self._acting = Acting(policy, act, env.num_envs, seed, stopwatch)
        self._stopwatch = stopwatch

    def step(self, params: Nest) -> tuple[TimeStep, np.ndarray, Nest]:
        """Acts, and steps the environments; returns the time step acted on, the action taken and extras."""
        timestep = self.timestep
        action, extras = self._acting(params, timestep)
        action = self.env.taken(action)
        with self._stopwatch("stepping environments"):
            self.timestep = self.env.step(action)
        return timestep, action, extras


def jit_policy(policy: Policy) -> Act:
    """Compiles `policy.step`; the key of step t is folded in inside, which saves a dispatch."""

    def act(params: Nest, key: Any, t: Any, timestep: TimeStep, state: Nest) -> tuple[Any, Nest, Nest]:
        return policy.step(params, jax.random.fold_in(key, t), timestep, state)

    return jax.jit(act)


def acting_params(agent: Agent) -> Nest:
    """Shapes of the params that the policy acts with; nothing is computed."""
    return jax.eval_shape(lambda: agent.update.params(agent.update.init(jax.random.PRNGKey(0))))


def step_shapes(agent: Agent, spec: EnvSpec) -> Steps:
    """Shapes and dtypes of one raw step of one slot, as the writer stores it; nothing is computed."""

    def step(params: Nest) -> Steps:
        observation = jax.tree.map(lambda leaf: jnp.zeros((1, *leaf.shape), leaf.dtype), spec.observations)
        zero = jnp.zeros(1, jnp.float32)
        timestep = TimeStep(zero.astype(jnp.int32), zero, zero, observation)
        state = agent.policy.initial_state(1)
        action, extras, _ = agent.policy.step(params, jax.random.PRNGKey(0), timestep, state)
        return Steps(observation, timestep.step_type, zero, zero, action, extras, timestep.step_type)

    shapes = jax.eval_shape(step, acting_params(agent))
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), shapes)
