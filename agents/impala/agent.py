"""IMPALA as four values."""

from __future__ import annotations

import functools

from boonta.agents import encoders, optimisation
from boonta.agents.base import Agent, Table
from boonta.agents.heads import make_action_head
from boonta.agents.impala.config import Config
from boonta.agents.impala.loss import impala_loss
from boonta.agents.impala.networks import make_network
from boonta.agents.impala.policy import make_policy
from boonta.envs.base import BoardView, EnvSpec


def make(config: Config, spec: EnvSpec) -> Agent:
    """Makes an IMPALA agent: V-trace actor-critic on sequences that are learned from once, in order.

    See "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
    (https://arxiv.org/abs/1802.01561). Computes nothing and touches no device: programs call it in the launcher.

    Args:
      config: hyper-parameters.
      spec: of the environment.

    Returns:
      `Agent` with one table, "trajectories".

    Raises:
      ValueError: actions are not discrete, some may be illegal, or the network cannot take the observations.
    """
    head = make_action_head(spec.actions, "IMPALA")
    if isinstance(spec.observations, BoardView):
        raise ValueError("IMPALA would take illegal actions; this environment's observations say which are legal")
    encoders.check_observation(config.torso, spec.observations)
    network = make_network(config, spec.observations, head.size)
    loss = functools.partial(impala_loss, network=network, head=head, config=config)
    table = Table(
        name="trajectories",
        kind="queue",
        sequence_length=config.sequence_length,
        period=config.unroll_length,
        batch_size=config.batch_size,
        size=config.queue_size,
        core_row=config.frame_stack - 1,
        max_lag=config.max_lag,
    )
    return Agent(
        policy=make_policy(network, head, spec.observations, config.frame_stack, "sample"),
        eval_policy=make_policy(network, head, spec.observations, config.frame_stack, config.eval_mode),
        update=optimisation.make_update(network.init, loss, config.optimiser),
        tables=(table,),
    )
