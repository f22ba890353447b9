"""How DQN acts: the action of the highest value, or with probability epsilon any."""

from __future__ import annotations

from typing import NamedTuple

import jax

from boonta.agents import sequences
from boonta.agents.base import Nest, Policy, Slots, Table
from boonta.agents.dqn.config import Config
from boonta.agents.dqn.networks import Network
from boonta.agents.dqn.values import expected
from boonta.agents.exploration import ActingParams, choose, rungs
from boonta.agents.views import view_of
from boonta.envs.base import EnvSpec, TimeStep


class State(NamedTuple):
    """Between steps.

    Attributes:
      frames: nest [B, ..., L-1], oldest first.
      rung: float32 [B], the slots' places on the ladder of epsilons.
    """

    frames: Nest
    rung: jax.Array


def make_policy(config: Config, network: Network, spec: EnvSpec, table: Table | None) -> Policy:
    """Acts by action values.

    Args:
      config: hyper-parameters.
      network: `ActingParams` hold its params.
      spec: the environment's spec.
      table: the table that it acts for, whose ratio says how many env steps an update stands for; random actions,
        and noise, are only then. None makes a greedy policy.

    Returns:
      `Policy`; actions are int32 [B], extras `exploration.Estimates`, states `State`.
    """
    view = view_of(spec.observations)
    per_update = table.env_steps_per_update if table else 0.0

    def initial_state(slots: Slots) -> State:
        return State(sequences.no_frames(view, slots.size, config.frame_stack), rungs(slots))

    def step(acting: ActingParams, key: jax.Array, timestep: TimeStep, state: State) -> tuple[jax.Array, Nest, State]:
        network_key, action_key = jax.random.split(key)
        stack, frames = sequences.push(state.frames, view_of(timestep.observation), timestep.step_type)
        outputs = network.apply(acting.params, network_key if table else None, stack)
        q = expected(config, outputs.values)  # [B, A]
        settings = config.exploration if table else None
        env_steps = acting.updates * per_update
        action, estimates = choose(action_key, q, timestep.observation, settings, env_steps, state.rung)
        return action, estimates, state._replace(frames=frames)

    return Policy(initial_state, step, deterministic=not table)
