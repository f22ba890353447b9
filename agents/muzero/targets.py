"""What MuZero learns from: raw steps to windows of K+1 states with their targets.

A sequence's rows after the context are used so:

    row     0 … R-1  |  R … R+K-1        |  R+K … R+K+N-1
            roots    |  unrolled into    |  only bootstrapped from

Window k of root r is row r+k. A window that crosses the end of an episode goes on in absorbing states: dummy actions
lead there, rewards and values are 0, the policy is the dummy action. Where the episode was only truncated nobody knows
what would have followed, so nothing is learned there.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from boonta.agents import sequences
from boonta.agents.base import Steps
from boonta.agents.rlax_first import rlax
from boonta.envs.base import LAST


class Targets(NamedTuple):
    """Targets of R roots of B slots; entry k belongs to the state k model steps after the root. A excludes the dummy.

    Attributes:
      action: int32 [K, R, B], leads from state k to k+1; A is the dummy action.
      reward: float32 [K, R, B], of that step.
      value: float32 [K+1, R, B].
      policy: float32 [K+1, R, B, A+1].
      mask: float32 [K+1, R, B], 0 where there is nothing to learn from.
      real: float32 [K+1, R, B], 1 where the state was observed, rather than absorbing or masked.
    """

    action: jax.Array
    reward: jax.Array
    value: jax.Array
    policy: jax.Array
    mask: jax.Array
    real: jax.Array


def value_targets(steps: Steps, value: jax.Array, discount: float, bootstrap_length: int, trace_lambda: float):
    """N-step returns, or lambda-returns over N steps, of every row; at the end of an episode they stop.

    With a discount below 0 every other reward, and the bootstrap, count against the player to move.
    See the MuZero paper (https://arxiv.org/abs/1911.08265), section 3, z_t.

    Args:
      steps: leaves [M, B, ...].
      value: [M, B], to bootstrap from.
      discount: of the agent.
      bootstrap_length: N, rewards before the bootstrap.
      trace_lambda: weight of longer returns.

    Returns:
      float32 [M, B]; the last N rows bootstrap from fewer than N rewards.
    """
    chex.assert_rank([steps.reward, value], 2)
    last = steps.step_type == LAST
    _, reward_t, discount_t, _ = sequences.transitions(steps, discount)  # [M-1, B]
    # Into LAST all weight is on its own value: 0 follows by discount if it terminated, else what it was truncated at.
    lambda_t = jnp.where(last[1:], 0.0, trace_lambda)
    returns = jax.vmap(rlax.n_step_bootstrapped_returns, (1, 1, 1, None, 1), 1)(
        reward_t, discount_t, value[1:], bootstrap_length, lambda_t
    )
    returns = jnp.concatenate([returns, value[-1:]])
    return jnp.where(last, jnp.where(steps.discount == 0, 0.0, value), returns)


def make_targets(steps: Steps, returns: jax.Array, policy: jax.Array, roots: int, unroll_length: int) -> Targets:
    """Cuts every root's window out.

    Args:
      steps: leaves [M, B, ...], M at least R + K.
      returns: float32 [M, B], value targets of single rows.
      policy: float32 [M, B, A], policy targets of single rows.
      roots: R.
      unroll_length: K.
    """
    chex.assert_rank([steps.step_type, returns, policy], [2, 2, 3])
    num_actions = policy.shape[-1]

    def windows(x: jax.Array) -> jax.Array:
        return jnp.stack([x[k : k + roots] for k in range(unroll_length + 1)])  # [K+1, R, B, ...]

    # 1. Where windows have crossed an end: `over` excludes LAST itself, which was observed.
    last = windows(steps.step_type == LAST)
    over = jnp.cumsum(last, axis=0) - last > 0
    # 2. Which kind of end the first one was; after a truncation nothing is known.
    first_end = last & ~over
    truncated = first_end & (windows(steps.discount) > 0)
    mask = jnp.cumsum(truncated, axis=0) - truncated == 0
    # 3. Actions: the recorded one, or the dummy from the end on.
    ended = last | over
    action = jnp.where(ended, num_actions, windows(steps.action))[:-1]
    # 4. Rewards and values: those of the rows, or 0 beyond the end.
    reward = jnp.where(over, 0.0, windows(steps.reward))[1:]
    value = jnp.where(over, 0.0, windows(returns))
    # 5. Policies: what the search found, or the dummy action where the episode has terminated.
    dummy = jax.nn.one_hot(num_actions, num_actions + 1)
    searched = jnp.pad(windows(policy), ((0, 0),) * 3 + ((0, 1),))
    terminated = over | (last & ~truncated)
    target_policy = jnp.where(terminated[..., None], dummy, searched)
    return Targets(action, reward, value, target_policy, mask.astype(jnp.float32), (mask & ~over).astype(jnp.float32))
