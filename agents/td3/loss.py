"""TD3's losses, of critics and policy, added up: no gradient of one reaches the other's params.

See "Addressing Function Approximation Error in Actor-Critic Methods" (https://arxiv.org/abs/1802.09477), Algorithm 1.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from boonta.agents import convolutions
from boonta.agents.actor_critic import Networks
from boonta.agents.base import Batch, Nest
from boonta.agents.descent import is_due
from boonta.agents.heads import Box
from boonta.agents.optimisation import Context, Outcome
from boonta.agents.returns import mean_over
from boonta.agents.td3.config import Config
from boonta.agents.transitions import transitions_of


def td3_loss(
    params: Nest, context: Context, batch: Batch, *, networks: Networks, box: Box, config: Config
) -> tuple[jax.Array, Outcome]:
    """The sum of both losses.

    Args:
      params: params of `networks`.
      context: has target params of policy and critics, a key, and the number of updates.
      batch: steps with leaves [L-1+T+N, B, ...].
      networks: see `actor_critic.make_networks`.
      box: the bounds of the actions.
      config: hyper-parameters.

    Returns:
      The loss [], and an `Outcome` whose statistics are the number of transitions, and whose metrics are means.
    """
    data = transitions_of(batch, box, config.replay, config.layers.frame_stack, config.discount)  # [M]
    mean, targets = mean_over(data.mask_tm1), context.target_params

    # Critics: the target is the least of the target critics' values, of an action near the target policy's: Eq. 14.
    action_t = smoothed(context.key, networks.policy(targets["policy"], data.stack_t), config)
    q_t = jnp.min(networks.critics(targets["critic"], data.stack_t, action_t), axis=-1)
    target = jax.lax.stop_gradient(data.reward_t + data.discount_t * q_t)
    q_tm1 = networks.critics(params["critic"], data.stack_tm1, data.action_tm1)  # [M, K]
    error = target[:, None] - q_tm1
    critic_loss = mean(jnp.sum(jnp.square(error), axis=-1))

    # Policy: the deterministic policy gradient through the first critic, needed only in updates that change the policy.
    def improve(policy: Nest) -> jax.Array:
        action = networks.policy(policy, data.stack_tm1)
        return -mean(networks.critics(jax.lax.stop_gradient(params["critic"]), data.stack_tm1, action)[:, 0])

    policy = params["policy"]
    if config.policy_delay == 1:
        policy_loss = improve(policy)
    else:
        due = is_due(context.updates, config.policy_delay)
        with convolutions.in_loop():
            policy_loss = jax.lax.cond(due, improve, lambda policy: jax.lax.stop_gradient(improve(policy)), policy)
    metrics = {
        "critic_loss": critic_loss,
        "policy_loss": policy_loss,
        "value": mean(jnp.mean(q_tm1, axis=-1)),
        "value_error": mean(jnp.mean(jnp.abs(error), axis=-1)),
    }
    return critic_loss + policy_loss, Outcome(None, metrics, jnp.sum(data.mask_tm1))


def smoothed(key: jax.Array, action: jax.Array, config: Config) -> jax.Array:
    """Scaled actions [M, D] with clipped noise, within the bounds: section 5.3."""
    noise = config.target_noise * jax.random.normal(key, action.shape)
    noise = jnp.clip(noise, -config.target_noise_clip, config.target_noise_clip)
    return jnp.clip(action + noise, -1.0, 1.0)
