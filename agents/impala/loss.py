"""IMPALA's loss: V-trace actor-critic with an entropy bonus.

See "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
(https://arxiv.org/abs/1802.01561), section 4.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from boonta.agents import sequences
from boonta.agents.actor_policy import unroll_as_acted
from boonta.agents.base import Batch, Nest
from boonta.agents.heads import ActionHead, entropy_metrics
from boonta.agents.impala.config import Config
from boonta.agents.metrics import histogram
from boonta.agents.optimisation import Context, Outcome
from boonta.agents.policy_value import Network
from boonta.agents.returns import clipped, explained, mean_over, number_of, v_trace


def impala_loss(
    params: Nest, context: Context, batch: Batch, *, network: Network, head: ActionHead, config: Config
) -> tuple[jax.Array, Outcome]:
    """The loss of section 4.2: policy gradient, plus value loss, minus entropy.

    Args:
      params: params of `network`.
      context: not used.
      batch: steps with leaves [L-1+T+1, B, ...].
      network: as in `make_network`.
      head: the action head, which makes the policy's distribution.
      config: hyper-parameters.

    Returns:
      The loss [], and an `Outcome` without priorities, whose metrics except "transitions" are means over transitions.
    """
    del context
    outputs, steps = unroll_as_acted(params, batch.steps, network, config.frame_stack)  # [T+1, B]
    action_tm1, reward_t, discount_t, mask_tm1 = sequences.transitions(steps, config.discount)  # [T, B]
    reward_t = clipped(reward_t, config.reward_clip)
    policy = head.distribution(outputs.logits[:-1])  # [T, B]
    log_pi_a = policy.log_prob(action_tm1)  # [T, B]
    log_mu_a = head.distribution(steps.extras.logits[:-1]).log_prob(action_tm1)  # [T, B]
    # Where there was no transition, the action may be impossible, and its weight infinite.
    rho_tm1 = jnp.where(mask_tm1 > 0, jnp.exp(log_pi_a - log_mu_a), 0.0)
    v_tm1, v_t = outputs.value[:-1], outputs.value[1:]
    trace = v_trace(v_tm1, v_t, reward_t, discount_t, rho_tm1, config.clip_rho, config.trace_lambda)
    mean, transitions = mean_over(mask_tm1), number_of(mask_tm1)
    entropy = mean(policy.entropy())
    metrics = {
        "policy_loss": mean(-log_pi_a * trace.advantage_tm1),
        "baseline_loss": mean(0.5 * (trace.target_tm1 - v_tm1) ** 2),
        "rho": mean(rho_tm1),
        "histogram/rho": histogram(rho_tm1, mask_tm1),
        "rho_clipped": mean(rho_tm1 > config.clip_rho),
        "reward": mean(reward_t),
        "value": mean(v_tm1),
        "value_explained": explained(trace.target_tm1, v_tm1, mean),
        "transitions": transitions,
        **entropy_metrics(head, entropy),
    }
    loss = metrics["policy_loss"] + config.baseline_cost * metrics["baseline_loss"]
    loss = loss - config.entropy_cost * entropy
    return loss * transitions if config.reduction == "sum" else loss, Outcome(None, metrics)
