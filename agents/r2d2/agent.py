"""R2D2 as an `Agent`: policy, evaluation policy, update and tables."""

from __future__ import annotations

import functools

import optax

from boonta.agents import descent, networks, optimisation
from boonta.agents.base import Agent, Table
from boonta.agents.exploration import with_updates
from boonta.agents.heads import num_actions
from boonta.agents.n_step import FreshErrors
from boonta.agents.r2d2.config import Config
from boonta.agents.r2d2.loss import r2d2_loss
from boonta.agents.r2d2.networks import Network, make_network
from boonta.agents.r2d2.policy import make_policy
from boonta.agents.recurrence import B, T, checked_outputs
from boonta.envs.base import EnvSpec


def make(
    config: Config,
    spec: EnvSpec,
    network: networks.MakeTorso | Network | None = None,
    loss: optimisation.AgentLoss = r2d2_loss,
    optimiser: optax.GradientTransformation | None = None,
) -> Agent:
    """Makes an R2D2 agent: recurrent action values, learned from replayed sequences that begin with a stored state.

    See "Recurrent Experience Replay in Distributed Reinforcement Learning"
    (https://openreview.net/forum?id=r1lyTjAqYX). It computes nothing and touches no device: programs call it in the
    launcher.

    Args:
      config: hyper-parameters.
      spec: the environment's spec.
      network: a network of your own. A torso, from frames [N, ..., L] to features [N, D], takes the place of the
        config's; a `Network` that of its core and head, too. None makes the config's.
      loss: a loss of your own, with the arguments of `r2d2_loss`.
      optimiser: an optimiser of your own, an optax gradient transformation in the place of the config's, with its
        clipping and schedule; these count its steps. None makes the config's.

    Returns:
      `Agent` with one table, "sequences".

    Raises:
      ValueError: actions are not discrete, the environment is a game of two players, or the network cannot take the
        observations; or an output of your own network doesn't fit, and the message says what it must be.
    """
    if spec.num_players != 1:
        raise ValueError(f"R2D2 plays alone; this environment is a game of {spec.num_players} players")
    num_actions(spec.actions, "R2D2")  # It refuses actions that are not discrete.
    own = networks.name_of(network)
    if isinstance(network, Network):
        check_network(network, config, spec)
    else:
        network = make_network(config, spec, network)
    table = make_table(config)
    loss = functools.partial(loss, network=network, config=config)
    target = optimisation.Target(period=config.target_period)
    return Agent(
        policy=make_policy(config, network, spec, table),
        eval_policy=make_policy(config, network, spec, None),
        update=with_updates(
            optimisation.make_update(network.init, loss, descent.chosen(config.optimiser, optimiser), target=target)
        ),
        tables=(table,),
        network=own,
    )


def make_table(config: Config) -> Table:
    """The table of sequences, each with the state of the core before its burn-in."""
    errors = FreshErrors(
        discount=config.discount,
        length=config.bootstrap_length,
        roots=config.roots,
        context=config.context,
        rescale=config.rescale,
        largest_share=config.priority_mix,
    )
    fresh = errors if config.fresh_errors else None
    return config.replay.table("sequences", config.sequence_length, config.period, fresh, config.frame_stack - 1)


def check_network(network: Network, config: Config, spec: EnvSpec) -> None:
    """Refuses a whole network whose outputs or state don't fit.

    Raises:
      ValueError: the message says which output, what it is, and what it must be.
    """
    values, _ = checked_outputs(network, spec, config.frame_stack)
    networks.require_array("unroll's values", values, {"T": T, "B": B, "A": spec.actions.num_values})
