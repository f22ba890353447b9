"""How MuZero acts: stacks frames, searches, and remembers what the search found."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from agents import sequences
from agents.base import Nest, Policy
from agents.muzero.search import Search
from envs.base import BoardView, EnvSpec, TimeStep


class Extras(NamedTuple):
    """What the learner needs to know of a step.

    Attributes:
      policy: float32 [B, A], the search's improved policy.
      value: float32 [B], the search's value of the state.
    """

    policy: jax.Array
    value: jax.Array


def view_of(observation: Nest) -> Nest:
    """The part of an observation, or of its spec, that the network sees."""
    return observation.view if isinstance(observation, BoardView) else observation


def make_policy(search: Search, spec: EnvSpec, frame_stack: int) -> Policy:
    """Acts by a search; the whole step, from frames to action, is one jitted program.

    Args:
      search: as in `make_search`.
      spec: of the environment.
      frame_stack: L, frames the network sees at once.

    Returns:
      `Policy`; actions are int32 [B], extras `Extras`; the state is the frames [B, ..., L-1], oldest first.
    """
    view = view_of(spec.observations)

    def initial_state(batch_size: int) -> jax.Array:
        return jnp.zeros((batch_size, *view.shape, frame_stack - 1), view.dtype)

    def step(params: Nest, key: jax.Array, timestep: TimeStep, state: jax.Array) -> tuple[jax.Array, Extras, jax.Array]:
        observation = timestep.observation
        stack, state = sequences.push(state, view_of(observation), timestep.step_type)
        if isinstance(observation, BoardView):
            legal = observation.legal
        else:
            legal = jnp.ones((stack.shape[0], spec.actions.num_values), bool)
        planned = search(params, key, stack, legal)
        return planned.action, Extras(planned.policy, planned.value), state

    return Policy(initial_state, step)
