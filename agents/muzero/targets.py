"""MuZero's targets: raw steps to windows of K+1 states.

The rows of a sequence after its context are used as follows:

    row     0 … R-1  |  R … R+K-1        |  R+K … R+K+N-1
            roots    |  unrolled into    |  only bootstrapped from

State k of root r's window is row r+k. A window that crosses the end of an episode goes on in absorbing states: the
actions are dummy actions, rewards and values are 0, the policy is the dummy action. If the episode was only truncated,
it is unknown what would have followed, so nothing is learned there.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from boonta.agents.base import Steps
from boonta.envs.base import LAST


class Targets(NamedTuple):
    """Targets of R roots of B slots; entry k is for the state k model steps after the root. A excludes the dummy.

    Attributes:
      action: int32 [K, R, B], leads from state k to k+1; A is the dummy action.
      reward: float32 [K, R, B], of that step.
      value: float32 [K+1, R, B].
      policy: float32 [K+1, R, B, A+1].
      mask: float32 [K+1, R, B], 0 where nothing is learned.
      real: float32 [K+1, R, B], 1 where the state was observed, rather than absorbing or masked.
    """

    action: jax.Array
    reward: jax.Array
    value: jax.Array
    policy: jax.Array
    mask: jax.Array
    real: jax.Array


def make_targets(steps: Steps, returns: jax.Array, policy: jax.Array, roots: int, unroll_length: int) -> Targets:
    """Makes the targets of every root's window.

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

    # 1. `over` marks states past an end; it excludes LAST itself, which was observed.
    last = windows(steps.step_type == LAST)
    over = jnp.cumsum(last, axis=0) - last > 0
    # 2. The kind of the first end; states after a truncation are masked.
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
