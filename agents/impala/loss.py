"""IMPALA's loss: V-trace actor-critic with an entropy bonus.

See "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
(https://arxiv.org/abs/1802.01561), section 4.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from boonta.agents import sequences
from boonta.agents.base import Batch, Nest, Steps
from boonta.agents.impala.config import Config
from boonta.agents.impala.networks import Inputs, Network, Outputs
from boonta.agents.optimisation import Context
from boonta.agents.rlax_first import rlax


class VTrace(NamedTuple):
    """V-trace of T transitions.

    Attributes:
      target_tm1: float32 [T, B], v_s of Eq. 1: what the value should have been.
      advantage_tm1: float32 [T, B], importance-weighted: what multiplies the policy's gradient.
    """

    target_tm1: jax.Array
    advantage_tm1: jax.Array


def v_trace(
    v_tm1: jax.Array,
    v_t: jax.Array,
    reward_t: jax.Array,
    discount_t: jax.Array,
    rho_tm1: jax.Array,
    clip_rho: float,
    trace_lambda: float,
) -> VTrace:
    """Corrects n-step returns for the lag between behaviour and target policy.

    Eq. 1, by the recursion of its Remark 1, over a batch:
      v_s = V(x_s) + delta_s + discount * c_s * (v_{s+1} - V(x_{s+1})),
      delta_s = min(clip_rho, rho_s) * (r_s + discount * V(x_{s+1}) - V(x_s)),  c_s = trace_lambda * min(1, rho_s).
    A transition with rho 0 has V(x_s) itself for its target, and nothing passes through it: that is how pseudo
    transitions between episodes are masked.

    Args:
      v_tm1: [T, B], V(x_s).
      v_t: [T, B], V(x_{s+1}).
      reward_t: [T, B].
      discount_t: [T, B], 0 where the episode terminated.
      rho_tm1: [T, B], importance weights, not clipped.
      clip_rho: most that a weight counts in a TD error and in the advantage.
      trace_lambda: how far later TD errors are carried back.

    Returns:
      `VTrace`; no gradient flows through it to values and weights, but one does to discounts, rewards and the trace's
      length: a meta-gradient may want to know what they do.
    """
    v_tm1, v_t, rho_tm1 = jax.tree.map(jax.lax.stop_gradient, (v_tm1, v_t, rho_tm1))
    arrays = [v_tm1, v_t, reward_t, discount_t, rho_tm1]
    chex.assert_rank(arrays, 2)
    chex.assert_equal_shape(arrays)
    one = functools.partial(
        rlax.vtrace_td_error_and_advantage,
        lambda_=trace_lambda,
        clip_rho_threshold=clip_rho,
        clip_pg_rho_threshold=clip_rho,
        stop_target_gradients=False,
    )
    trace = jax.vmap(one, in_axes=1, out_axes=1)(*arrays)
    return VTrace(trace.errors + v_tm1, trace.pg_advantage)


def impala_loss(
    params: Nest, context: Context, batch: Batch, *, network: Network, config: Config
) -> tuple[jax.Array, tuple[None, dict[str, jax.Array]]]:
    """The loss of section 4.2: policy gradient, plus value loss, minus entropy.

    Args:
      params: of `network`.
      context: not used.
      batch: steps with leaves [L-1+T+1, B, ...].
      network: as in `make_network`.
      config: hyper-parameters.

    Returns:
      The loss [], and as auxiliary no priorities and the metrics; all but "transitions" are means over transitions.
    """
    del context
    outputs, steps = evaluate(params, batch.steps, network, config.frame_stack)  # [T+1, B]
    action_tm1, reward_t, discount_t, mask_tm1 = sequences.transitions(steps, config.discount)  # [T, B]
    if config.reward_clip == "abs_one":
        reward_t = jnp.clip(reward_t, -1, 1)
    log_pi = jax.nn.log_softmax(outputs.logits[:-1])  # [T, B, A]
    log_pi_a = _pick(log_pi, action_tm1)  # [T, B]
    log_mu_a = _pick(jax.nn.log_softmax(steps.extras.logits[:-1]), action_tm1)  # [T, B]
    rho_tm1 = mask_tm1 * jnp.exp(log_pi_a - log_mu_a)
    v_tm1, v_t = outputs.value[:-1], outputs.value[1:]
    trace = v_trace(v_tm1, v_t, reward_t, discount_t, rho_tm1, config.clip_rho, config.trace_lambda)

    # Counted over the whole batch, however many devices hold it, so that their number makes no difference.
    transitions = jnp.maximum(jnp.sum(mask_tm1), 1)

    def mean(x: jax.Array) -> jax.Array:
        return jnp.sum(mask_tm1 * x) / transitions

    metrics = {
        "policy_loss": mean(-log_pi_a * trace.advantage_tm1),
        "baseline_loss": mean(0.5 * (trace.target_tm1 - v_tm1) ** 2),
        "entropy": mean(-jnp.sum(jnp.exp(log_pi) * log_pi, axis=-1)),
        "rho": mean(rho_tm1),
        "rho_clipped": mean(rho_tm1 > config.clip_rho),
        "reward": mean(reward_t),
        "value": mean(v_tm1),
        "value_explained": 1 - mean((trace.target_tm1 - v_tm1) ** 2) / (_variance(trace.target_tm1, mean) + 1e-8),
        "transitions": transitions,
    }
    loss = metrics["policy_loss"] + config.baseline_cost * metrics["baseline_loss"]
    loss = loss - config.entropy_cost * metrics["entropy"]
    return loss * transitions if config.reduction == "sum" else loss, (None, metrics)


def evaluate(params: Nest, steps: Steps, network: Network, frame_stack: int) -> tuple[Outputs, Steps]:
    """Runs the network over a sequence as acting ran it: steps [L-1+T+1, B] -> outputs and steps [T+1, B]."""
    stack = sequences.stack(steps.observation, steps.step_type, frame_stack)  # [T+1, B, ..., L]
    steps = sequences.drop_context(steps, frame_stack)
    core = jax.tree.map(lambda x: x[0], steps.extras.core)  # [B]
    action_tm1 = jnp.concatenate([core.action_tm1[None], steps.action[:-1]])  # [T+1, B]
    outputs, _ = network.unroll(params, Inputs(stack, steps.step_type, steps.reward, action_tm1), core.lstm)
    return outputs, steps


def _pick(x: jax.Array, action: jax.Array) -> jax.Array:
    """Takes the entry of each action: x [T, B, A], action int32 [T, B] -> [T, B]."""
    return jnp.take_along_axis(x, action[..., None], axis=-1)[..., 0]


def _variance(x: jax.Array, mean: Callable[[jax.Array], jax.Array]) -> jax.Array:
    return mean((x - mean(x)) ** 2)
