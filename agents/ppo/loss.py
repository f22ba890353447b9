"""PPO's loss: a clipped policy gradient, a value loss and an entropy bonus.

See "Proximal Policy Optimization Algorithms" (https://arxiv.org/abs/1707.06347), sections 3 and 5.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from boonta.agents import sequences
from boonta.agents.base import Batch, Nest
from boonta.agents.heads import ActionHead, entropy_metrics
from boonta.agents.metrics import histogram
from boonta.agents.normalisation import measured, moments_of
from boonta.agents.optimisation import Context, Outcome
from boonta.agents.policy_value import Network
from boonta.agents.ppo.config import Config
from boonta.agents.recurrence import Inputs, inputs_as_acted
from boonta.agents.returns import Mean, clipped, explained, generalised_advantages, mean_over, v_trace, variance
from boonta.agents.views import view_of


class Units(NamedTuple):
    """What an update's steps learn from: N transitions with S = 1, or N sequences of S transitions for a core.

    Attributes:
      inputs: what the network saw, leaves [N, S, ...].
      core: state of the core before the first row, leaves [N, ...].
      action: [N, S, ...].
      mask: float32 [N, S], 0 where there is no transition.
      log_prob, value: float32 [N, S], of the params before the update.
      advantage, target: float32 [N, S].
      rho: float32 [N, S], probability of the action before the update, over that with which it was drawn.
      reward: float32 [N, S], as learned from.
      seen: nest [N, S, ...], the views of the newest frames, of which moments are kept, or ().
      earned: float32 [N, S], discounted returns whose moments are kept, or ().
    """

    inputs: Inputs
    core: Nest
    action: jax.Array
    mask: jax.Array
    log_prob: jax.Array
    value: jax.Array
    advantage: jax.Array
    target: jax.Array
    rho: jax.Array
    reward: jax.Array
    seen: Nest
    earned: Nest


class Gathered(NamedTuple):
    """Running statistics.

    Attributes:
      observations: `Moments` of the leaves that are `measured` of what the network sees of a frame, or ().
      returns: `Moments` of discounted returns, or ().
    """

    observations: Any
    returns: Any


def prepare_units(
    params: Nest, context: Context, batch: Batch, *, network: Network, head: ActionHead, config: Config, whole: bool
) -> Units:
    """Computes advantages, targets and old log-probabilities, with the params before the update.

    Args:
      params: params of `network`; with normalised observations it takes them and their moments.
      context: its statistics are `Gathered`.
      batch: steps with leaves [L-1+T+1, B, ...].
      network, head, config: the agent's.
      whole: whether sequences stay whole.
    """
    inputs, core, steps = inputs_as_acted(batch.steps, config.frame_stack)  # [T+1, B]
    outputs, _ = network.unroll(params, inputs, core)
    action_tm1, reward_t, discount_t, mask_tm1 = sequences.transitions(steps, config.discount)  # [T, B]
    reward_t = scaled(reward_t, context.statistics, config)
    log_prob = head.distribution(outputs.logits[:-1]).log_prob(action_tm1)
    acted = head.distribution(steps.extras.logits[:-1]).log_prob(action_tm1)
    rho = jnp.where(mask_tm1 > 0, jnp.exp(log_prob - acted), 1.0)
    value = outputs.value
    if config.correction == "v_trace":
        trace = v_trace(
            value[:-1], value[1:], reward_t, discount_t, mask_tm1 * rho, config.clip_rho, config.trace_lambda
        )
        advantage, target = trace.advantage_tm1, trace.target_tm1
    else:
        advantage = generalised_advantages(value, reward_t, discount_t, mask_tm1, config.trace_lambda)
        target = advantage + value[:-1]
    inputs = jax.tree.map(lambda x: x[:-1], inputs)
    seen = [x[:-1] for x in measured(view_of(steps.observation))] if config.normalise_observations else ()
    earned = steps.extras.earned[:-1] if config.normalise_rewards else ()
    rows = Units(inputs, (), action_tm1, mask_tm1, log_prob, value[:-1], advantage, target, rho, reward_t, seen, earned)
    rows = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), rows)  # [B, T, ...]
    if whole:
        return rows._replace(core=core)
    return jax.tree.map(lambda x: x.reshape(-1, 1, *x.shape[2:]), rows)  # [B*T, 1, ...]


def scaled(reward: jax.Array, statistics: Gathered, config: Config) -> jax.Array:
    """Rewards as they are learned from: clipped, or over the deviation of returns, or raw."""
    reward = clipped(reward, config.reward_clip)
    if config.normalise_rewards:
        reward = jnp.clip(reward / jnp.sqrt(statistics.returns.variance + 1e-8), -10, 10)
    return reward


def ppo_loss(
    params: Nest, context: Context, units: Units, *, network: Network, head: ActionHead, config: Config
) -> tuple[jax.Array, Outcome]:
    """The loss of Eq. 9 on a minibatch, as a mean over its transitions.

    Args:
      params: as in `prepare_units`.
      context: its updates are for the entropy's schedule.
      units: the minibatch's.
      network, head, config: the agent's.

    Returns:
      The loss [], and an `Outcome` without priorities, whose metrics are means over transitions.
    """
    rows = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), units._replace(core=()))  # [S, N, ...]
    outputs, _ = network.unroll(params, rows.inputs, units.core)
    mean = mean_over(rows.mask)
    policy = head.distribution(outputs.logits)
    # Where there was no transition, the action may be impossible, and its ratio infinite.
    log_ratio = jnp.where(rows.mask > 0, policy.log_prob(rows.action) - rows.log_prob, 0.0)
    ratio = jnp.exp(log_ratio)
    advantage = normalised(rows.advantage, mean) if config.normalise_advantages else rows.advantage
    clipped = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
    policy_loss = mean(-jnp.minimum(ratio * advantage, clipped * advantage))  # Eq. 7
    error = (outputs.value - rows.target) ** 2
    if config.value_clip is not None:
        near = rows.value + jnp.clip(outputs.value - rows.value, -config.value_clip, config.value_clip)
        error = jnp.maximum(error, (near - rows.target) ** 2)
    baseline_loss = mean(0.5 * error)
    entropy = mean(policy.entropy())
    metrics = {
        "policy_loss": policy_loss,
        "baseline_loss": baseline_loss,
        "kl": mean(ratio - 1 - log_ratio),
        "histogram/ratio": histogram(ratio, rows.mask),
        "ratio_clipped": mean(jnp.abs(ratio - 1) > config.clip),
        "rho": mean(rows.rho),
        "rho_error": mean(jnp.abs(rows.rho - 1)),
        "reward": mean(rows.reward),
        "value": mean(rows.value),
        "value_explained": explained(rows.target, rows.value, mean),
        "entropy_cost": entropy_cost(context.updates, config),
        **entropy_metrics(head, entropy),
    }
    loss = policy_loss + config.baseline_cost * baseline_loss - metrics["entropy_cost"] * entropy
    seen = moments_of(rows.seen) if config.normalise_observations else ()
    earned = moments_of(rows.earned) if config.normalise_rewards else ()
    return loss, Outcome(None, metrics, Gathered(seen, earned))


def entropy_cost(updates: jax.Array, config: Config) -> jax.Array:
    """The weight of the entropy bonus in this update."""
    left = jnp.ones(())
    if config.entropy_anneal_updates is not None:
        left = jnp.maximum(0.0, 1 - updates / config.entropy_anneal_updates)
    return jnp.float32(config.entropy_cost * left)


def normalised(x: jax.Array, mean: Mean) -> jax.Array:
    """Numbers with mean 0 and variance 1 over the transitions that count."""
    return (x - mean(x)) / jnp.sqrt(variance(x, mean) + 1e-8)
