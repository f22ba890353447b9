"""IMPALA as an `Agent`: policy, evaluation policy, update and tables."""

from __future__ import annotations

import functools

import optax

from boonta.agents import descent, networks, optimisation
from boonta.agents.actor_policy import make_policy
from boonta.agents.base import Agent, Table
from boonta.agents.config import require_sign
from boonta.agents.heads import make_action_head
from boonta.agents.impala.config import Config
from boonta.agents.impala.loss import impala_loss
from boonta.agents.normalisation import observation_statistics, with_moments
from boonta.agents.policy_value import Network, normalising, open_network
from boonta.envs.base import EnvSpec


def make(
    config: Config,
    spec: EnvSpec,
    network: networks.MakeTorso | Network | None = None,
    loss: optimisation.AgentLoss = impala_loss,
    optimiser: optax.GradientTransformation | None = None,
) -> Agent:
    """Makes an IMPALA agent: V-trace actor-critic on sequences that are learned from once, in order.

    See "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
    (https://arxiv.org/abs/1802.01561). Computes nothing and touches no device: programs call it in the launcher.

    Args:
      config: hyper-parameters.
      spec: the environment's spec.
      network: a network of your own. A torso, from frames [N, ..., L] to features [N, D], takes the place of the
        config's; a `Network` that of its core and heads, too. None makes the config's.
      loss: a loss of your own, with the arguments of `impala_loss`.
      optimiser: an optimiser of your own, an optax gradient transformation in the place of the config's, with its
        clipping and schedule; these count its steps. None makes the config's.

    Returns:
      `Agent` with one table, "trajectories".

    Raises:
      ValueError: there is no head for the actions; the discount's sign doesn't fit the number of players; the network
        has a core, but the environment is a game of two; the network can't take the observations; or an output of your
        own doesn't fit, and the message says what it must be.
    """
    head = make_action_head(spec.actions, "IMPALA", config.gaussian)
    require_sign(config, spec.num_players)
    own = networks.name_of(network)
    network = open_network("impala", config, spec, head, network)
    statistics = None
    if config.normalise_observations:
        network, loss, statistics = normalising(network), with_moments(loss), observation_statistics(spec)
    loss = functools.partial(loss, network=network, head=head, config=config)
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
        policy=make_policy(network, head, spec, config.frame_stack, "sample"),
        eval_policy=make_policy(network, head, spec, config.frame_stack, config.eval_mode),
        update=optimisation.make_update(
            network.init,
            loss,
            descent.chosen(config.optimiser, optimiser),
            statistics=statistics,
            published=lambda params, moments: params if statistics is None else (params, moments),
        ),
        tables=(table,),
        network=own,
    )
