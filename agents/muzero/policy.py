"""MuZero's policy: it stacks frames, searches, and stores the search's policy and value with the step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from boonta.agents import sequences
from boonta.agents.base import Nest, Policy
from boonta.agents.encoders import view_of
from boonta.agents.muzero.config import Config
from boonta.agents.muzero.networks import Model
from boonta.agents.muzero.search import Planned, make_search
from boonta.envs.base import BoardView, EnvSpec, TimeStep


class Extras(NamedTuple):
    """The part of a step that the learner needs from the policy.

    Attributes:
      policy: float32 [B, A], the search's improved policy.
      value: float32 [B], the search's value of the state.
    """

    policy: jax.Array
    value: jax.Array


def legal_of(observation: Nest, shape: tuple[int, ...]) -> jax.Array:
    """The legal actions, bool [..., A]: the observation's, if it has them, otherwise all, in this shape."""
    return observation.legal if isinstance(observation, BoardView) else jnp.ones(shape, bool)


def extras_of(planned: Planned) -> Extras:
    """The part of a search's results that the learner needs."""
    return Extras(planned.policy, planned.value)


@dataclasses.dataclass(frozen=True, eq=False)
class Planner:
    """The policy's step, from frames to action in one jitted program. It is a value: tools look into its parts.

    Attributes:
      config: hyper-parameters.
      model: the model.
      spec: spec of the environment.
      explore: whether the search explores.
      remember: makes the extras from a search's results; tools keep more of them than the learner needs.
    """

    config: Config
    model: Model
    spec: EnvSpec
    explore: bool
    remember: Callable[[Planned], Nest] = extras_of

    def __call__(self, params: Nest, key: jax.Array, timestep: TimeStep, state: Nest) -> tuple[jax.Array, Nest, Nest]:
        """See `Policy.step`."""
        num_actions = self.spec.actions.num_values
        search = make_search(self.config, self.model, num_actions, self.explore)
        stack, state = sequences.push(state, view_of(timestep.observation), timestep.step_type)
        legal = legal_of(timestep.observation, (*timestep.step_type.shape, num_actions))
        planned = search(params, key, stack, legal)
        return planned.action, self.remember(planned), state


def make_policy(step: Planner) -> Policy:
    """Makes the policy that acts by a search.

    Returns:
      `Policy`; actions are int32 [B], the state is the nest of frames [B, ..., L-1], oldest first.
    """
    view, context = view_of(step.spec.observations), step.config.frame_stack - 1

    def initial_state(batch_size: int) -> Nest:
        return jax.tree.map(lambda x: jnp.zeros((batch_size, *x.shape, context), x.dtype), view)

    return Policy(initial_state, step, deterministic=not step.explore)
