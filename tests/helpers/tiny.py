"""A minimal agent that really learns: one linear layer and a one-step policy gradient. Tests of nodes use it."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from boonta.agents.base import Agent, Batch, Policy, Table, Update
from boonta.envs.base import EnvSpec


class State(NamedTuple):
    weights: dict
    steps: jax.Array


def make(spec: EnvSpec, batch_size: int = 8, length: int = 5, learning_rate: float = 0.1) -> Agent:
    features = math.prod(spec.observations.shape)
    actions = spec.actions.num_values

    def logits(params, observation):
        flat = observation.reshape(*observation.shape[: -len(spec.observations.shape)], features)
        return flat.astype(jnp.float32) @ params["linear"]["w"]

    def act(params, key, timestep, state):
        action = jax.random.categorical(key, logits(params, timestep.observation))
        return action.astype(jnp.int32), {}, state

    def init(key):
        del key
        return State({"linear": {"w": jnp.zeros((features, actions))}}, jnp.zeros((), jnp.int32))

    def loss(params, batch: Batch):
        log_probs = jax.nn.log_softmax(logits(params, batch.steps.observation[:-1]))
        chosen = jnp.take_along_axis(log_probs, batch.steps.action[:-1, :, None], -1)[..., 0]
        return -jnp.mean(chosen * batch.steps.reward[1:])

    def step(state: State, batch: Batch):
        value, gradient = jax.value_and_grad(loss)(state.weights, batch)
        weights = jax.tree.map(lambda w, g: w - learning_rate * g, state.weights, gradient)
        return State(weights, state.steps + 1), None, {"loss": value}

    policy = Policy(lambda slots: (), act)
    table = Table("trajectories", "queue", length, length - 1, batch_size, size=4 * batch_size)
    return Agent(policy, policy, Update(init, step, lambda state: state.weights), (table,))
