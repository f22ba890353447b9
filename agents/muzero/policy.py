"""MuZero's policy: it stacks frames, searches, and stores the search's policy and value with the step."""

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
    """The part of a step that the learner needs from the policy.

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
    """The legal actions, bool [..., A]: the observation's, if it has them, otherwise all, in this shape."""
    return observation.legal if isinstance(observation, BoardView) else jnp.ones(shape, bool)


def extras_of(planned: Planned) -> Extras:
    """The part of a search's results that the learner needs."""
    return Extras(planned.policy, planned.value)


def make_policy(
    search: Search,
    spec: EnvSpec,
    frame_stack: int,
    remember: Callable[[Planned], Nest] = extras_of,
    deterministic: bool = False,
) -> Policy:
    """Makes a policy that acts by a search; the whole step, from frames to action, is one jitted program.

    Args:
      search: the search, from `make_search`.
      spec: spec of the environment.
      frame_stack: L, frames the network sees at once.
      remember: makes the extras from a search's results; tools keep more of them than the learner needs.
      deterministic: whether the search doesn't explore.

    Returns:
      `Policy`; actions are int32 [B], extras come from `remember`, the state is the frames [B, ..., L-1], oldest first.
    """
    view = view_of(spec.observations)

    def initial_state(batch_size: int) -> jax.Array:
        return jnp.zeros((batch_size, *view.shape, frame_stack - 1), view.dtype)

    def step(params: Nest, key: jax.Array, timestep: TimeStep, state: jax.Array) -> tuple[jax.Array, Nest, jax.Array]:
        stack, state = sequences.push(state, view_of(timestep.observation), timestep.step_type)
        legal = legal_of(timestep.observation, (stack.shape[0], spec.actions.num_values))
        planned = search(params, key, stack, legal)
        return planned.action, remember(planned), state

    return Policy(initial_state, step, deterministic=deterministic)
