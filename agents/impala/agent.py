"""IMPALA as four values."""

from __future__ import annotations

import functools

import jax

from boonta.agents import networks, optimisation
from boonta.agents.base import Agent, Table
from boonta.agents.config import require
from boonta.agents.heads import ActionHead, make_action_head
from boonta.agents.impala.config import Config
from boonta.agents.impala.loss import impala_loss
from boonta.agents.impala.networks import Network, Outputs, make_network
from boonta.agents.impala.policy import make_policy
from boonta.agents.recurrence import example_inputs
from boonta.envs.base import BoardView, EnvSpec

T, B = 3, 2  # Sizes that a whole network is checked with.


def make(config: Config, spec: EnvSpec, network: networks.MakeTorso | Network | None = None) -> Agent:
    """Makes an IMPALA agent: V-trace actor-critic on sequences that are learned from once, in order.

    See "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
    (https://arxiv.org/abs/1802.01561). Computes nothing and touches no device: programs call it in the launcher.

    Args:
      config: hyper-parameters.
      spec: the environment's spec.
      network: a network of your own. A torso, from frames [N, ..., L] to features [N, D], takes the place of the
        config's; a `Network` that of its core and heads, too. None makes the config's.

    Returns:
      `Agent` with one table, "trajectories".

    Raises:
      ValueError: there is no head for the actions, some may be illegal, or the network cannot take the observations;
        or an output of your own network doesn't fit, and the message says what it must be.
    """
    head = make_action_head(spec.actions, "IMPALA", config.gaussian)
    if isinstance(spec.observations, BoardView):
        raise ValueError("IMPALA would take illegal actions; this environment's observations say which are legal")
    if isinstance(network, Network):
        check_network(network, config, spec, head)
    else:
        if network is not None:
            networks.check_torso(network, "impala.Network", spec.observations, config.frame_stack, {"D": None})
        network = make_network(config, spec, head, network)
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
        policy=make_policy(network, head, spec, config.frame_stack, "sample"),
        eval_policy=make_policy(network, head, spec, config.frame_stack, config.eval_mode),
        update=optimisation.make_update(network.init, loss, config.optimiser),
        tables=(table,),
    )


def check_network(network: Network, config: Config, spec: EnvSpec, head: ActionHead) -> None:
    """Refuses a whole network whose outputs or state don't fit, and a config with parts that it doesn't have.

    Raises:
      ValueError: the message says which output or field, what it is, and what it must be.
    """
    require(config, "lstm_size", config.lstm_size == 0, "0 where network is a whole one, whose core is its own")
    require(config, "value_torso", config.value_torso == "shared", "'shared' where network is a whole one")
    params = networks.trace("init", lambda _: network.init(jax.random.PRNGKey(0)), ())
    networks.require_params(params)
    state = networks.trace("initial_state", lambda _: network.initial_state(B), ())
    if any(leaf.shape[:1] != (B,) for leaf in jax.tree.leaves(state)):
        got = networks.describe(state)
        raise ValueError(f"network: initial_state must return arrays [B={B}, ...], but returns {got}")
    inputs = jax.eval_shape(lambda: example_inputs(spec, config.frame_stack, T, B))
    unrolled = networks.trace("unroll", network.unroll, params, inputs, state)
    if not (isinstance(unrolled, tuple) and len(unrolled) == 2 and isinstance(unrolled[0], Outputs)):
        raise ValueError(f"network: unroll must return (Outputs, state), but returns {networks.describe(unrolled)}")
    outputs, after = unrolled
    networks.require_array("unroll's logits", outputs.logits, {"T": T, "B": B, "P": head.size})
    networks.require_array("unroll's value", outputs.value, {"T": T, "B": B})
    networks.require_same("unroll's state", after, state, "initial_state's")
