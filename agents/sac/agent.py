"""SAC as an `Agent`: policy, evaluation policy, update and tables."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from boonta.agents import actor_critic, descent, networks, optimisation
from boonta.agents.base import Agent, Nest
from boonta.agents.groups import Gaussian
from boonta.agents.heads import make_action_head, real_actions
from boonta.agents.sac.config import Config
from boonta.agents.sac.loss import sac_loss
from boonta.agents.transitions import make_table
from boonta.envs.base import EnvSpec


def make(
    config: Config,
    spec: EnvSpec,
    network: actor_critic.Own | None = None,
    loss: optimisation.AgentLoss = sac_loss,
    optimiser: descent.OwnOptimisers = None,
) -> Agent:
    """Makes a SAC agent: a squashed Gaussian policy that earns for its entropy, and critics of it, learn from replay.

    See "Soft Actor-Critic Algorithms and Applications" (https://arxiv.org/abs/1812.05905). Computes nothing and touches
    no device: programs call it in the launcher.

    Args:
      config: hyper-parameters.
      spec: the env's spec.
      network: a network of your own. A torso, from frames [M, ..., L] to features [M, F], is below the dense layers of
        policy and critics, which have one each; `actor_critic.Networks` take the place of these layers, too. None makes
        the config's.
      loss: a loss of your own, with the arguments of `sac_loss`.
      optimiser: an optimiser of your own, an optax gradient transformation in the place of each of the config's; or a
        dict of some of "policy", "critic" and "temperature". None makes the config's.

    Returns:
      `Agent` with one table, "transitions".

    Raises:
      ValueError: actions are not real numbers, or have no bounds; the torso can't take the observations; or an
        output of your own network doesn't fit, and the message says what it must be.
    """
    box, frame_stack = real_actions(spec.actions, "SAC"), config.layers.frame_stack
    head = make_action_head(spec.actions, "SAC", Gaussian("squashed", "state"))
    made = actor_critic.make_networks(config.layers, spec, box, head.layer, head.size, network)

    def init(key: jax.Array) -> Nest:
        return {**made.init(key), "temperature": jnp.log(jnp.float32(config.temperature))}

    def sample(outputs: jax.Array, key: jax.Array) -> jax.Array:
        return head.distribution(outputs).sample(key)

    def mode(outputs: jax.Array, key: jax.Array) -> jax.Array:
        del key
        return head.distribution(outputs).mode()

    optimisers = {
        "policy": config.policy_optimiser,
        "critic": config.critic_optimiser,
        "temperature": config.temperature_optimiser,
    }
    update = optimisation.make_update(
        init,
        actor_critic.with_statistics(loss, made, head=head, box=box, config=config),
        descent.chosen(optimisers, optimiser),
        target=optimisation.Target(tau=config.tau, part=lambda params: params["critic"]),
        statistics=actor_critic.statistics_of(config.layers, spec),
        published=actor_critic.published,
    )
    return Agent(
        policy=actor_critic.make_policy(made, sample, box, spec, frame_stack, explores=True),
        eval_policy=actor_critic.make_policy(made, mode, box, spec, frame_stack, explores=False),
        update=update._replace(at_once=actor_critic.updates_at_once(config.layers, network)),
        tables=(make_table(config.replay, frame_stack),),
        network=networks.name_of(network),
    )
