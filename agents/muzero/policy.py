"""How MuZero acts: stacks frames, searches, and remembers what the search found."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from boonta.agents import sequences
from boonta.agents.base import Nest, Policy
from boonta.agents.muzero.search import Planned, Search
from boonta.envs.base import BoardView, EnvSpec, TimeStep


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


def legal_of(observation: Nest, shape: tuple[int, ...]) -> jax.Array:
    """The actions allowed, bool [..., A], where an observation says so; else all, in this shape."""
    return observation.legal if isinstance(observation, BoardView) else jnp.ones(shape, bool)


def extras_of(planned: Planned) -> Extras:
    """What the learner needs of a search."""
    return Extras(planned.policy, planned.value)


def make_policy(
    search: Search, spec: EnvSpec, frame_stack: int, remember: Callable[[Planned], Nest] = extras_of
) -> Policy:
    """Acts by a search; the whole step, from frames to action, is one jitted program.

    Args:
      search: as in `make_search`.
      spec: of the environment.
      frame_stack: L, frames the network sees at once.
      remember: makes the extras of what a search found; whoever looks inside keeps more than the learner needs.

    Returns:
      `Policy`; actions are int32 [B], extras as remembered; the state is the frames [B, ..., L-1], oldest first.
    """
    view = view_of(spec.observations)

    def initial_state(batch_size: int) -> jax.Array:
        return jnp.zeros((batch_size, *view.shape, frame_stack - 1), view.dtype)

    def step(params: Nest, key: jax.Array, timestep: TimeStep, state: jax.Array) -> tuple[jax.Array, Nest, jax.Array]:
        stack, state = sequences.push(state, view_of(timestep.observation), timestep.step_type)
        legal = legal_of(timestep.observation, (stack.shape[0], spec.actions.num_values))
        planned = search(params, key, stack, legal)
        return planned.action, remember(planned), state

    return Policy(initial_state, step)
