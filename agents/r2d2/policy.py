"""How R2D2 acts: the action of the highest value, or with probability epsilon any."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from boonta.agents import sequences
from boonta.agents.base import Nest, Policy, Slots, Table
from boonta.agents.exploration import ActingParams, choose, rungs
from boonta.agents.r2d2.config import Config
from boonta.agents.r2d2.loss import raw_of
from boonta.agents.r2d2.networks import Network
from boonta.agents.recurrence import Core, Inputs
from boonta.envs.base import EnvSpec, TimeStep


class State(NamedTuple):
    """Between steps.

    Attributes:
      frames: nest [B, ..., L-1], oldest first.
      core: `Core`.
      rung: float32 [B], the slots' places on the ladder of epsilons.
    """

    frames: Nest
    core: Core
    rung: jax.Array


def make_policy(config: Config, network: Network, spec: EnvSpec, table: Table | None) -> Policy:
    """Acts by action values.

    Args:
      config: hyper-parameters.
      network: `ActingParams` hold its params.
      spec: the environment's spec.
      table: the table that it acts for, whose ratio says how many env steps an update stands for; random actions
        are only then. None makes a greedy policy.

    Returns:
      `Policy`; actions are int32 [B], extras `exploration.Estimates`, states `State`.
    """
    per_update = table.env_steps_per_update if table else 0.0

    def initial_state(slots: Slots) -> State:
        frames = sequences.no_frames(spec.observations, slots.size, config.frame_stack)
        core = Core(network.initial_state(slots.size), jnp.zeros(slots.size, jnp.int32))
        return State(frames, core, rungs(slots))

    def step(acting: ActingParams, key: jax.Array, timestep: TimeStep, state: State) -> tuple[jax.Array, Nest, State]:
        stack, frames = sequences.push(state.frames, timestep.observation, timestep.step_type)
        inputs = Inputs(stack, timestep.step_type, timestep.reward, state.core.action_tm1)
        inputs = jax.tree.map(lambda x: x[None], inputs)  # [1, B, ...]
        values, lstm = network.unroll(acting.params, inputs, state.core.lstm)
        settings = config.exploration if table else None
        env_steps = acting.updates * per_update
        action, estimates = choose(
            key, values[0], timestep.observation, settings, env_steps, state.rung, raw_of(config)
        )
        return action, estimates, State(frames, Core(lstm, action), state.rung)

    def executed(state: State, action: jax.Array) -> State:
        return state._replace(core=state.core._replace(action_tm1=jnp.asarray(action, jnp.int32)))

    return Policy(initial_state, step, lambda state: state.core, not table, executed)
