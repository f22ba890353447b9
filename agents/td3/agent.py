"""TD3 as an `Agent`: policy, evaluation policy, update and tables."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp

from boonta.agents import actor_critic, descent, networks, optimisation
from boonta.agents.base import Agent
from boonta.agents.heads import real_actions
from boonta.agents.td3.config import Config
from boonta.agents.td3.loss import td3_loss
from boonta.agents.transitions import make_table
from boonta.envs.base import EnvSpec


def make(
    config: Config,
    spec: EnvSpec,
    network: actor_critic.Own | None = None,
    loss: optimisation.AgentLoss = td3_loss,
    optimiser: descent.OwnOptimisers = None,
) -> Agent:
    """Makes a TD3 agent, or a DDPG agent by the config `DDPG`: a deterministic policy and critics learn from replay.

    See "Addressing Function Approximation Error in Actor-Critic Methods" (https://arxiv.org/abs/1802.09477) and
    "Continuous control with deep reinforcement learning" (https://arxiv.org/abs/1509.02971). Computes nothing and
    touches no device: programs call it in the launcher.

    Args:
      config: hyper-parameters.
      spec: the env's spec.
      network: a network of your own. A torso, from frames [M, ..., L] to features [M, F], is below the dense layers of
        policy and critics, which have one each; `actor_critic.Networks` take the place of these layers, too. None makes
        the config's.
      loss: a loss of your own, with the arguments of `td3_loss`.
      optimiser: an optimiser of your own, an optax gradient transformation in the place of each of the config's; or a
        dict of some of "policy" and "critic". None makes the config's.

    Returns:
      `Agent` with one table, "transitions".

    Raises:
      ValueError: actions are not real numbers, or have no bounds; the torso can't take the observations; or an
        output of your own network doesn't fit, and the message says what it must be.
    """
    box, frame_stack = real_actions(spec.actions, "TD3"), config.layers.frame_stack

    def last(x: jax.Array, name: str) -> jax.Array:
        # Actions start near the middle of their range, where tanh has its full slope.
        return jnp.tanh(hk.Linear(box.size, name=name, w_init=hk.initializers.VarianceScaling(1e-4))(x))

    made = actor_critic.make_networks(config.layers, spec, box, last, box.size, network)

    def explore(action: jax.Array, key: jax.Array) -> jax.Array:
        noise = config.exploration_noise * jax.random.normal(key, action.shape)
        return box.unscale(jnp.clip(action + noise, -1.0, 1.0))

    def exploit(action: jax.Array, key: jax.Array) -> jax.Array:
        del key
        return box.unscale(action)

    update = optimisation.make_update(
        made.init,
        actor_critic.with_statistics(loss, made, box=box, config=config),
        descent.chosen({"policy": config.policy_optimiser, "critic": config.critic_optimiser}, optimiser),
        periods={"policy": config.policy_delay},
        target=optimisation.Target(period=config.policy_delay, tau=config.tau),
        statistics=actor_critic.statistics_of(config.layers, spec),
        published=actor_critic.published,
    )
    return Agent(
        policy=actor_critic.make_policy(made, explore, box, spec, frame_stack, explores=True),
        eval_policy=actor_critic.make_policy(made, exploit, box, spec, frame_stack, explores=False),
        update=update._replace(at_once=actor_critic.updates_at_once(config.layers, network)),
        tables=(make_table(config.replay, frame_stack),),
        network=networks.name_of(network),
    )
