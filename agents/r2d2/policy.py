"""How R2D2 acts: the action of the highest value, or with probability epsilon any."""

from __future__ import annotations

import jax

from boonta.agents.base import Nest, Policy, Table
from boonta.agents.exploration import ActingParams, choose, rungs
from boonta.agents.r2d2.config import Config
from boonta.agents.r2d2.loss import raw_of
from boonta.agents.r2d2.networks import Network
from boonta.agents.recurrence import Inputs, recurrent_policy
from boonta.envs.base import EnvSpec


def make_policy(config: Config, network: Network, spec: EnvSpec, table: Table | None) -> Policy:
    """Acts by action values.

    Args:
      config: hyper-parameters.
      network: `ActingParams` hold its params.
      spec: the environment's spec.
      table: the table that it acts for, whose ratio says how many env steps an update stands for; random actions
        are only then. None makes a greedy policy.

    Returns:
      `Policy`; actions are int32 [B], extras `exploration.Estimates`.
    """
    per_update = table.env_steps_per_update if table else 0.0

    def unroll(acting: ActingParams, inputs: Inputs, lstm: Nest) -> tuple[jax.Array, Nest]:
        return network.unroll(acting.params, inputs, lstm)

    def choose_action(
        acting: ActingParams, key: jax.Array, values: jax.Array, observation: Nest, rung: jax.Array
    ) -> tuple[jax.Array, Nest]:
        env_steps = acting.updates * per_update
        return choose(key, values, observation, config.exploration if table else None, env_steps, rung, raw_of(config))

    acting_network = Network(network.init, network.initial_state, unroll)
    return recurrent_policy(acting_network, spec, config.frame_stack, choose_action, not table, rungs)
