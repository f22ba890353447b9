"""SAC's losses, of critics, policy and temperature, added up: no gradient of one reaches another's params.

See "Soft Actor-Critic Algorithms and Applications" (https://arxiv.org/abs/1812.05905), section 5 and Appendix C.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from boonta.agents.actor_critic import Networks
from boonta.agents.base import Batch, Nest
from boonta.agents.extremes import extreme
from boonta.agents.heads import ActionHead, Box, entropy_metrics
from boonta.agents.optimisation import Context, Outcome
from boonta.agents.returns import mean_over
from boonta.agents.sac.config import Config
from boonta.agents.transitions import transitions_of


def sac_loss(
    params: Nest, context: Context, batch: Batch, *, networks: Networks, head: ActionHead, box: Box, config: Config
) -> tuple[jax.Array, Outcome]:
    """The sum of the three losses.

    Args:
      params: params of `networks`, and the log of alpha as "temperature".
      context: has the target params of the critics, and a key.
      batch: steps with leaves [L-1+T+N, B, ...].
      networks: see `actor_critic.make_networks`.
      head: the action head, which makes the policy's distribution.
      box: the bounds of the actions.
      config: hyper-parameters.

    Returns:
      The loss [], and an `Outcome` whose statistics are the number of transitions, and whose metrics are means.
    """
    stop = jax.lax.stop_gradient
    data = transitions_of(batch, box, config.replay, config.layers.frame_stack, config.discount)  # [M]
    mean, alpha = mean_over(data.mask_tm1), jnp.exp(params["temperature"])
    next_key, key = jax.random.split(context.key)

    # Critics: Eq. 5, with the target of Eq. 6 by the least of the targets.
    following = head.distribution(stop(networks.policy(params["policy"], data.stack_t)))
    action_t, log_pi_t = following.sample_and_log_prob(next_key)
    q_t = jnp.min(networks.critics(context.target_params, data.stack_t, box.scale(action_t)), axis=-1)
    target = stop(data.reward_t + data.discount_t * (q_t - alpha * log_pi_t))
    q_tm1 = networks.critics(params["critic"], data.stack_tm1, data.action_tm1)  # [M, K]
    error = target[:, None] - q_tm1
    critic_loss = mean(0.5 * jnp.sum(jnp.square(error), axis=-1))

    # Policy: Eq. 9, with an action that is drawn anew, and through which the gradient flows.
    policy = head.distribution(networks.policy(params["policy"], data.stack_tm1))
    action, log_pi = policy.sample_and_log_prob(key)
    q = networks.critics(stop(params["critic"]), data.stack_tm1, box.scale(action))  # [M, K]
    policy_loss = mean(stop(alpha) * log_pi - extreme(jnp.min, q, (-1,))[:, 0])

    # Temperature: Eq. 18.
    wanted = config.entropy_per_number * box.size
    temperature_loss = mean(-alpha * (stop(log_pi) + wanted))

    metrics = {
        "critic_loss": critic_loss,
        "policy_loss": policy_loss,
        "temperature_loss": temperature_loss,
        "temperature": alpha,
        "value": mean(jnp.mean(q_tm1, axis=-1)),
        "value_error": mean(jnp.mean(jnp.abs(error), axis=-1)),
        "entropy_wanted": jnp.float32(wanted),
        **entropy_metrics(head, -mean(log_pi)),
    }
    transitions = jnp.sum(data.mask_tm1)
    return critic_loss + policy_loss + temperature_loss, Outcome(None, metrics, transitions)
