"""PPO as an `Agent`: policy, evaluation policy, update and tables."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import optax

from boonta.agents import descent, networks, optimisation
from boonta.agents.actor_policy import make_policy
from boonta.agents.base import Agent, Nest, Table
from boonta.agents.config import require, require_sign
from boonta.agents.heads import make_action_head
from boonta.agents.normalisation import Moments, merge_moments, no_moments, no_moments_of
from boonta.agents.optimisation import Context
from boonta.agents.policy_value import Network, normalising, open_network
from boonta.agents.ppo.config import Config
from boonta.agents.ppo.loss import Gathered, ppo_loss, prepare_units
from boonta.agents.ppo.policy import with_earned
from boonta.envs.base import REWARD, EnvSpec


def make(
    config: Config,
    spec: EnvSpec,
    network: networks.MakeTorso | Network | None = None,
    loss: optimisation.AgentLoss = ppo_loss,
    optimiser: optax.GradientTransformation | None = None,
) -> Agent:
    """Makes a PPO agent: several epochs of clipped policy gradients over each batch of sequences.

    See "Proximal Policy Optimization Algorithms" (https://arxiv.org/abs/1707.06347). Computes nothing and touches no
    device: programs call it in the launcher.

    Args:
      config: hyper-parameters.
      spec: the environment's spec.
      network: a network of your own. A torso, from frames [N, ..., L] to features [N, D], takes the place of the
        config's; a `Network` that of its core and heads, too. None makes the config's.
      loss: a loss of your own, with the arguments of `ppo_loss`.
      optimiser: an optimiser of your own, an optax gradient transformation in the place of the config's, with its
        clipping and schedule; these count its steps. None makes the config's.

    Returns:
      `Agent` with one table, "trajectories".

    Raises:
      ValueError: there is no head for the actions; the discount's sign doesn't fit the number of players; minibatches
        don't divide; the network can't take the observations; or an output of your own doesn't fit.
    """
    head = make_action_head(spec.actions, "PPO", config.gaussian)
    require_sign(config, spec.num_players)
    unrolled = open_network("ppo", config, spec, head, network)
    whole = bool(jax.tree.leaves(jax.eval_shape(lambda: unrolled.initial_state(1))))
    if whole:
        divides = config.batch_size % config.minibatches == 0
        require(
            config, "minibatches", divides, f"a divisor of batch_size, {config.batch_size}, where sequences stay whole"
        )
    if config.normalise_observations:
        unrolled = normalising(unrolled)
    parts: dict[str, Any] = {"network": unrolled, "head": head, "config": config}
    policy, eval_policy = (
        make_policy(unrolled, head, spec, config.frame_stack, mode) for mode in ("sample", config.eval_mode)
    )
    target_kl = config.target_kl
    update = optimisation.make_update(
        unrolled.init,
        _with_moments(functools.partial(loss, **parts), config),
        descent.chosen(config.optimiser, optimiser),
        statistics=_statistics(config, spec),
        published=lambda params, statistics: _published(params, statistics, config),
        epochs=config.epochs,
        minibatches=config.minibatches,
        prepare=_with_moments(functools.partial(prepare_units, **parts, whole=whole), config),
        further=None if target_kl is None else lambda metrics: metrics["kl"] <= target_kl,
    )
    return Agent(
        policy=with_earned(policy, config.discount) if config.normalise_rewards else policy,
        eval_policy=eval_policy,
        update=update,
        tables=(make_table(config),),
        network=networks.name_of(network),
    )


def make_table(config: Config) -> Table:
    """The queue of sequences; where data must be fresh, they don't overlap."""
    return Table(
        name="trajectories",
        kind="queue",
        sequence_length=config.sequence_length,
        # A sequence ends with a row to bootstrap from, whose action is old once it is learned from; so where data must
        # be fresh the next one begins after it, and one transition in T + 1 isn't learned from.
        period=config.unroll_length + (config.max_staleness is not None),
        batch_size=config.batch_size,
        size=config.batch_size,
        core_row=config.frame_stack - 1,
        max_staleness=config.max_staleness,
    )


def _published(params: Nest, statistics: Nest, config: Config) -> Nest:
    """The params that the network takes, and so the policy."""
    return (params, statistics.observations) if config.normalise_observations else params


def _with_moments(function: Callable[..., Any], config: Config) -> Callable[[Nest, Context, Any], Any]:
    """A function of params, context and data, whose network takes the moments that the context has."""
    return lambda params, context, data: function(_published(params, context.statistics, config), context, data)


def _statistics(config: Config, spec: EnvSpec) -> optimisation.Statistics | None:
    if not (config.normalise_observations or config.normalise_rewards):
        return None

    def init() -> Gathered:
        return Gathered(
            no_moments_of(spec) if config.normalise_observations else (),
            no_moments(REWARD) if config.normalise_rewards else (),
        )

    def merge(a: Gathered, b: Gathered) -> Gathered:
        return Gathered(*(merge_moments(x, y) if isinstance(x, Moments) else () for x, y in zip(a, b)))

    return optimisation.Statistics(init, merge)
