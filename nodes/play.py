"""A policy playing a batch of environments: what actors, evaluators and `programs.play` have in common."""

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


class Play:
    """Keeps the state between a policy and its environments.

    Args:
      env: the environments, B slots.
      policy: pure functions.
      act: `jit_policy(policy)`; given, so that several players share its compilation.
      seed: of the policy's randomness.
      stopwatch: times acting and stepping.
    """

    def __init__(self, env: BatchedEnv, policy: Policy, act: Act, seed: int, stopwatch: Stopwatch):
        self.env = env
        self._act = act
        self._stopwatch = stopwatch
        self._key = jax.random.PRNGKey(seed)
        self._state = policy.initial_state(env.num_envs)
        self._timestep = env.reset()
        self._steps = 0

    def step(self, params: Nest) -> tuple[TimeStep, np.ndarray, Nest]:
        """Acts, and steps the environments; returns the time step acted on, the action and its extras."""
        timestep = self._timestep
        with self._stopwatch("acting"):
            out = self._act(params, self._key, self._steps, timestep, self._state)
            action, extras = jax.device_get(out[:2])
            self._state = out[2]
        self._steps += 1
        with self._stopwatch("stepping environments"):
            self._timestep = self.env.step(action)
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
