"""DQN as an `Agent`: policy, evaluation policy, update and tables."""

from __future__ import annotations

import functools

import jax
import optax

from boonta.agents import descent, networks, optimisation
from boonta.agents.base import Agent, Nest, Table
from boonta.agents.config import require, require_sign
from boonta.agents.dqn.config import Config
from boonta.agents.dqn.loss import dqn_loss
from boonta.agents.dqn.networks import Network, Outputs, make_network
from boonta.agents.dqn.policy import make_policy
from boonta.agents.exploration import with_updates
from boonta.agents.heads import num_actions
from boonta.agents.n_step import FreshErrors
from boonta.agents.views import view_of
from boonta.envs.base import EnvSpec

N = 2  # Rows that a whole network is checked with.


def make(
    config: Config,
    spec: EnvSpec,
    network: networks.MakeTorso | Network | None = None,
    loss: optimisation.AgentLoss = dqn_loss,
    optimiser: optax.GradientTransformation | None = None,
) -> Agent:
    """Makes a DQN agent: action values learned from replayed N-step transitions, with the parts that the config has.

    See "Human-level control through deep reinforcement learning" (https://doi.org/10.1038/nature14236), "Rainbow"
    (https://arxiv.org/abs/1710.02298) and "Distributed Prioritized Experience Replay"
    (https://arxiv.org/abs/1803.00933). It computes nothing and touches no device: programs call it in the launcher.

    Args:
      config: hyper-parameters.
      spec: the environment's spec.
      network: a network of your own. A torso, from frames [N, ..., L] to features [N, D], takes the place of the
        config's; a `Network` that of its head, too. None makes the config's.
      loss: a loss of your own, with the arguments of `dqn_loss`.
      optimiser: an optimiser of your own, an optax gradient transformation in the place of the config's, with its
        clipping and schedule; these count its steps. None makes the config's.

    Returns:
      `Agent` with one table, "transitions".

    Raises:
      ValueError: actions are not discrete, the discount doesn't fit the number of players, or the network cannot take
        the observations; or an output of your own network doesn't fit, and the message says what it must be.
    """
    require_sign(config, spec.num_players)
    own = networks.name_of(network)
    view, actions = view_of(spec.observations), num_actions(spec.actions, "DQN")
    if isinstance(network, Network):
        check_network(network, config, view, actions)
    else:
        network = make_network(config, view, actions, network)
    table = make_table(config)
    loss = functools.partial(loss, network=network, num_actions=actions, config=config)
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
    """The table of transitions. Actors' errors are of values; a distribution's priorities are its losses, in nats."""
    errors = FreshErrors(
        discount=config.discount,
        length=config.bootstrap_length,
        roots=config.roots,
        context=config.frame_stack - 1,
        clip=config.reward_clip == "abs_one",
    )
    fresh = config.fresh_errors and config.distribution == "none"
    return config.replay.table("transitions", config.sequence_length, config.roots, errors if fresh else None)


def check_network(network: Network, config: Config, view: Nest, actions: int) -> None:
    """Refuses a whole network whose outputs don't fit, and a config with parts that are then the network's own.

    Raises:
      ValueError: the message says which output or field, what it is, and what it must be.
    """
    own = "where network is a whole one, whose head is its own"
    require(config, "dueling", not config.dueling, f"False {own}")
    require(config, "noisy", config.noisy == 0, f"0 {own}")
    params = networks.trace("init", lambda _: network.init(jax.random.PRNGKey(0)), ())
    networks.require_params(params)
    stack = networks.frames(view, config.frame_stack, N)
    outputs = networks.trace("apply", lambda params, stack: network.apply(params, None, stack), params, stack)
    if not isinstance(outputs, Outputs):
        raise ValueError(f"network: apply must return Outputs, but returns {networks.describe(outputs)}")
    networks.require_array("apply's values", outputs.values, {"N": N, "A": actions, "Z": config.numbers})
    networks.require_array("apply's tau", outputs.tau, {"N": N, "Z": config.numbers})
