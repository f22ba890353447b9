"""MuZero's policy: it stacks what it sees, searches, and stores the search's policy and value with the step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from boonta.agents import sequences
from boonta.agents.base import Nest, Policy, Slots
from boonta.agents.exploration import ActingParams, rungs
from boonta.agents.muzero import history
from boonta.agents.muzero.config import Config
from boonta.agents.muzero.networks import Model
from boonta.agents.muzero.search import Planned, make_search, noise_of
from boonta.agents.tables import sequence_counts
from boonta.agents.views import legal_of, view_of
from boonta.envs.base import EnvSpec, TimeStep


class Extras(NamedTuple):
    """The part of a step that the learner needs from the policy.

    Attributes:
      policy: float32 [B, A], the search's improved policy.
      value: float32 [B], the search's value of the state.
    """

    policy: jax.Array
    value: jax.Array


class State(NamedTuple):
    """Between steps.

    Attributes:
      frames: nest [B, ..., L-1] of what the network saw, oldest first.
      action: int32 [B], the last action.
      rung: float32 [B], the slots' places among all, see `exploration.rungs`.
    """

    frames: Nest
    action: jax.Array
    rung: jax.Array


def extras_of(planned: Planned) -> Extras:
    """The part of a search's results that the learner needs."""
    return Extras(planned.policy, planned.value)


def env_steps_per_update(config: Config) -> float:
    """Env steps for each update of one learner; reanalyzed sequences come on top of fresh ones, or take their place."""
    fresh, ratio = config.replay.table("trajectories", config.sequence_length, config.roots), config.reanalyze_ratio
    if config.reanalyze == "nodes" and 0 < ratio < 1:
        # Only whole sequences are drawn, so that their share isn't quite that of the config.
        number, _ = sequence_counts([dataclasses.replace(fresh, share=share) for share in (1 - ratio, ratio)])
        fresh = dataclasses.replace(fresh, batch_size=number)
    return fresh.env_steps_per_update


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

    def __call__(
        self, acting: ActingParams, key: jax.Array, timestep: TimeStep, state: State
    ) -> tuple[jax.Array, Nest, State]:
        """See `Policy.step`."""
        num_actions = self.spec.actions.num_values
        search = make_search(self.config, self.model, num_actions, self.explore)
        seen = history.see(self.config, timestep.observation, timestep.step_type, state.action)
        stack, frames = sequences.push(state.frames, seen, timestep.step_type)
        legal = legal_of(timestep.observation, (*timestep.step_type.shape, num_actions))
        env_steps = acting.updates * env_steps_per_update(self.config)
        noise = noise_of(self.config.self_play, env_steps, state.rung)
        planned = search(acting.params, key, stack, legal, noise)
        return planned.action, self.remember(planned), State(frames, planned.action, state.rung)


def make_policy(step: Planner) -> Policy:
    """Makes the policy that acts by a search.

    Returns:
      `Policy`; its params are `ActingParams`, its actions int32 [B], its states `State`.
    """
    config, spec = step.config, step.spec
    seen = history.spec_of(config, view_of(spec.observations), spec.actions.num_values)

    def initial_state(slots: Slots) -> State:
        frames = sequences.no_frames(seen, slots.size, config.frame_stack)
        return State(frames, jnp.zeros(slots.size, jnp.int32), rungs(slots))

    def executed(state: State, action: jax.Array) -> State:
        return state._replace(action=action)

    return Policy(initial_state, step, deterministic=not step.explore, executed=executed)
