"""Returns and importance weights, from which values and policies learn."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal, NamedTuple

import chex
import jax
import jax.numpy as jnp

from boonta.agents import sequences
from boonta.agents.base import Steps
from boonta.agents.groups import Replay
from boonta.agents.light_rlax import rlax
from boonta.envs.base import LAST

Mean = Callable[[jax.Array], jax.Array]  # Of `mean_over`: [*S] -> [].


def clipped(reward: jax.Array, reward_clip: Literal["abs_one", "none"]) -> jax.Array:
    """Rewards as they are learned from: in [-1, 1], or raw, as a config's `reward_clip` says."""
    return jnp.clip(reward, -1, 1) if reward_clip == "abs_one" else reward


class VTrace(NamedTuple):
    """V-trace of T transitions.

    Attributes:
      target_tm1: float32 [T, B], v_s of Eq. 1, the target of the value.
      advantage_tm1: float32 [T, B], the importance-weighted advantage, which multiplies the policy's gradient.
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

    See "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
    (https://arxiv.org/abs/1802.01561), Eq. 1, here by the recursion of its Remark 1, over a batch:
      v_s = V(x_s) + delta_s + discount * c_s * (v_{s+1} - V(x_{s+1})),
      delta_s = min(clip_rho, rho_s) * (r_s + discount * V(x_{s+1}) - V(x_s)),  c_s = trace_lambda * min(1, rho_s).
    A transition with rho 0 has V(x_s) itself for its target, and nothing passes through it. Pseudo transitions between
    episodes are masked in this way.

    Args:
      v_tm1: [T, B], V(x_s).
      v_t: [T, B], V(x_{s+1}).
      reward_t: [T, B].
      discount_t: [T, B], 0 where the episode terminated.
      rho_tm1: [T, B], importance weights, not clipped.
      clip_rho: upper limit of a weight in TD errors and advantages.
      trace_lambda: factor of the trace that carries later TD errors back.

    Returns:
      `VTrace`; no gradient flows through it to values and weights. One does flow to discounts, rewards and the trace's
      factor, for meta-gradients.
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


def generalised_advantages(
    value: jax.Array, reward_t: jax.Array, discount_t: jax.Array, mask_tm1: jax.Array, trace_lambda: float
) -> jax.Array:
    """Generalised advantages of T transitions; they end with an episode, and at a truncation with the last value.

    See "High-Dimensional Continuous Control Using Generalized Advantage Estimation" (https://arxiv.org/abs/1506.02438),
    Eq. 16.

    Args:
      value: [T+1, B].
      reward_t: [T, B].
      discount_t: [T, B], 0 where the episode terminated.
      mask_tm1: [T, B], 0 where there is no transition: its advantage is 0, and nothing passes through it.
      trace_lambda: factor of the trace that carries later TD errors back.

    Returns:
      float32 [T, B].
    """
    chex.assert_rank([value, reward_t, discount_t, mask_tm1], 2)
    chex.assert_equal_shape([value[:-1], reward_t, discount_t, mask_tm1])
    # The TD error of what is no transition becomes V - V.
    reward_t = jnp.where(mask_tm1 > 0, reward_t, value[:-1])
    one = rlax.truncated_generalized_advantage_estimation
    return jnp.asarray(jax.vmap(one, (1, 1, None, 1), 1)(reward_t, mask_tm1 * discount_t, trace_lambda, value))


def value_targets(steps: Steps, value: jax.Array, discount: float, bootstrap_length: int, trace_lambda: float):
    """N-step returns, or lambda-returns over N steps, of every row; at the end of an episode they stop.

    With a discount below 0 every other reward, and the bootstrap, count against the player to move.
    See the MuZero paper (https://arxiv.org/abs/1911.08265), section 3, z_t.

    Args:
      steps: leaves [M, B, ...].
      value: [M, B], the values to bootstrap from.
      discount: the agent's discount.
      bootstrap_length: N, rewards before the bootstrap.
      trace_lambda: weight of longer returns.

    Returns:
      float32 [M, B]; the last N rows bootstrap from fewer than N rewards.
    """
    chex.assert_rank([steps.reward, value], 2)
    last = steps.step_type == LAST
    _, reward_t, discount_t, _ = sequences.transitions(steps, discount)  # [M-1, B]
    # In the step into LAST all weight is on the value of LAST; after a termination its discount, 0, removes it.
    lambda_t = jnp.where(last[1:], 0.0, trace_lambda)
    returns = jax.vmap(rlax.n_step_bootstrapped_returns, (1, 1, 1, None, 1), 1)(
        reward_t, discount_t, value[1:], bootstrap_length, lambda_t
    )
    returns = jnp.concatenate([returns, value[-1:]])
    return jnp.where(last, jnp.where(steps.discount == 0, 0.0, value), returns)


def number_of(mask: jax.Array) -> jax.Array:
    """The number [] of transitions that count, at least 1, of a mask [*S].

    It is that of the whole batch, however many devices hold it, so that the number of devices makes no difference.
    """
    return jnp.maximum(jnp.sum(mask), 1)


def mean_over(mask: jax.Array) -> Mean:
    """Makes the function that gives the mean of numbers [*S] over the transitions that count, by a mask [*S]."""
    number = number_of(mask)
    return lambda x: jnp.sum(mask * x) / number


def variance(x: jax.Array, mean: Mean) -> jax.Array:
    """The variance [] of numbers [*S] over the transitions that count."""
    return mean((x - mean(x)) ** 2)


def explained(target: jax.Array, value: jax.Array, mean: Mean) -> jax.Array:
    """The share [] of the variance of targets [*S] that values [*S] explain: 1 where they are equal."""
    return 1 - mean((target - value) ** 2) / (variance(target, mean) + 1e-8)


def importance_weights(
    probability: jax.Array, learns: jax.Array, updates: jax.Array, replay: Replay
) -> tuple[jax.Array, jax.Array]:
    """Weights of sequences, which correct for drawing some more often than others.

    w = (1 / (size * p)) ** beta, over the largest of those that are learned from, so that it only scales down. Others
    have no error, so that their probability, the least of all, would scale down the whole batch.
    See "Prioritized Experience Replay" (https://arxiv.org/abs/1511.05952), section 3.4.

    Args:
      probability: float32 [B], size * p: the probability with which each sequence was drawn, relative to drawing
        uniformly, so that sequences of tables of several sizes compare.
      learns: bool [B], whether anything of the sequence is learned from.
      updates: int32 [], the number of updates before.
      replay: has the initial beta, and the number of updates until it is 1, if it grows.

    Returns:
      float32 [B] in (0, 1], and beta [].
    """
    start, anneal = replay.importance_exponent, replay.importance_anneal_updates
    grown = jnp.zeros(()) if anneal is None else jnp.minimum(updates / anneal, 1.0)
    beta = start + (1 - start) * grown
    least = jnp.min(jnp.where(learns, probability, jnp.inf))
    return jnp.minimum(least / probability, 1.0) ** beta, beta
