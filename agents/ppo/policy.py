"""How PPO acts where rewards are normalised: it also stores the discounted return of the episode so far."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from boonta.agents.base import Nest, Policy, Slots
from boonta.envs.base import FIRST, TimeStep


class State(NamedTuple):
    """Between steps.

    Attributes:
      inner: the state of the policy below.
      earned: float32 [B], the discounted return.
    """

    inner: Nest
    earned: jax.Array


class Extras(NamedTuple):
    """What the learner needs to know of a step.

    Attributes:
      logits: float32 [B, P], the parameters of the behaviour policy.
      earned: float32 [B], the rewards of the episode so far, each discounted by the steps since.
    """

    logits: jax.Array
    earned: jax.Array


def with_earned(policy: Policy, discount: float) -> Policy:
    """The same policy, which stores discounted returns with its steps."""

    def initial_state(slots: Slots) -> State:
        return State(policy.initial_state(slots), jnp.zeros(slots.size))

    def step(params: Nest, key: jax.Array, timestep: TimeStep, state: State) -> tuple[jax.Array, Extras, State]:
        action, extras, inner = policy.step(params, key, timestep, state.inner)
        earned = jnp.where(timestep.step_type == FIRST, 0.0, discount * state.earned + timestep.reward)
        earned = earned.astype(jnp.float32)
        return action, Extras(extras.logits, earned), State(inner, earned)

    return policy._replace(
        initial_state=initial_state,
        step=step,
        core=lambda state: policy.core(state.inner),
        executed=lambda state, action: state._replace(inner=policy.executed(state.inner, action)),
    )
