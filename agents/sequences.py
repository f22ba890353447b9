"""Raw steps to transitions: the one place that shifts, masks and stacks.

A sequence is L-1 context rows, used only for their frames, then T+1 rows, the last of which is only bootstrapped from:

    row          0 … L-2 | L-1 …  L-2+T | L-1+T
    used for     frames  | transitions  | bootstrap

Row t holds the reward and discount that the action of row t-1 earned, so T+1 rows make T transitions. Where row t-1 is
LAST the environment reset itself and ignored the action: there is no transition, and the mask is 0.

A frame from before the episode is zeros. Zeros are the policy's initial state, so one rule, "FIRST goes back to the
initial state", holds for the frame stack and the recurrent core alike.
"""

from __future__ import annotations

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from boonta.agents.base import Batch, Nest, Steps
from boonta.envs.base import FIRST, LAST


class Transitions(NamedTuple):
    """T consecutive transitions of B slots.

    Attributes:
      action_tm1: [T, B, ...], chosen in row t-1.
      reward_t: float32 [T, B], raw, earned by `action_tm1`.
      discount_t: float32 [T, B]; 0 where `action_tm1` terminated the episode, the agent's discount elsewhere,
        truncation included: there the value of the LAST observation stands for what would have followed.
      mask_tm1: float32 [T, B]; 0 where row t-1 is LAST and there was no transition, 1 elsewhere.
    """

    action_tm1: jax.Array
    reward_t: jax.Array
    discount_t: jax.Array
    mask_tm1: jax.Array


def transitions(steps: Steps, discount: float) -> Transitions:
    """Shifts and masks raw steps.

    Args:
      steps: leaves [T+1, B, ...], context already dropped.
      discount: the agent's discount, which multiplies the environment's.

    Returns:
      `Transitions`, leaves [T, B, ...].
    """
    chex.assert_rank([steps.step_type, steps.reward, steps.discount], 2)
    chex.assert_equal_shape([steps.step_type, steps.reward, steps.discount])
    return Transitions(
        action_tm1=steps.action[:-1],
        reward_t=steps.reward[1:],
        discount_t=discount * steps.discount[1:],
        mask_tm1=(steps.step_type[:-1] != LAST).astype(jnp.float32),
    )


def drop_context(steps: Steps, length: int) -> Steps:
    """Drops the context rows, which are used only for their frames.

    Args:
      steps: leaves [L-1+T+1, B, ...].
      length: L, frames in a stack.

    Returns:
      Steps, leaves [T+1, B, ...]; `core`, of which there is one row, is left as it is.
    """
    return jax.tree.map(lambda x: x[length - 1 :], steps._replace(core=()))._replace(core=steps.core)


def stack(observation: Nest, step_type: jax.Array, length: int) -> Nest:
    """Stacks frames of a whole sequence, exactly as `push` did one step at a time.

    Args:
      observation: nest [L-1+T+1, B, ...].
      step_type: int32 [L-1+T+1, B].
      length: L, frames in a stack.

    Returns:
      Nest [T+1, B, ..., L], oldest frame first; frames from before the episode are zeros.
    """
    chex.assert_rank(step_type, 2)
    rows = step_type.shape[0] - length + 1
    first = step_type == FIRST
    # A row sees the frame `lag` rows back unless one of the rows since then, itself included, started an episode.
    seen = [jnp.ones_like(first[length - 1 :])]  # Masks [T+1, B] by lag.
    for lag in range(1, length):
        seen.append(seen[-1] & ~first[length - lag : length - lag + rows])

    def leaf(x: jax.Array) -> jax.Array:
        lags = [_where(seen[lag], x[length - 1 - lag : length - 1 - lag + rows]) for lag in reversed(range(length))]
        return jnp.stack(lags, axis=-1)

    return jax.tree.map(leaf, observation)


def no_frames(spec: Nest, batch_size: int, length: int) -> Nest:
    """The frames [B, ..., L-1] that a policy has before an episode, for specs of one frame: zeros."""
    return jax.tree.map(lambda x: jnp.zeros((batch_size, *x.shape, length - 1), x.dtype), spec)


def push(frames: Nest, observation: Nest, step_type: jax.Array) -> tuple[Nest, Nest]:
    """Stacks one step's frame onto those in the policy's state.

    Args:
      frames: nest [B, ..., L-1], oldest first.
      observation: nest [B, ...].
      step_type: int32 [B].

    Returns:
      The stack [B, ..., L], and the frames [B, ..., L-1] for the next state.
    """
    chex.assert_rank(step_type, 1)

    def leaf(past: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.concatenate([_where(step_type != FIRST, past), jnp.expand_dims(x, -1)], axis=-1)

    stacked = jax.tree.map(leaf, frames, observation)
    return stacked, jax.tree.map(lambda x: x[..., 1:], stacked)


def select(batch: Batch, index: jax.Array | slice) -> Batch:
    """Selects sequences of a batch: leaves [T, B, ...] -> [T, index, ...]."""
    return Batch(jax.tree.map(lambda x: x[:, index], batch.steps), batch.probability[index])


def folded(x: Nest) -> Nest:
    """Folds time into the batch: leaves [T, B, ...] -> [B*T, ...].

    XLA on CPU is 10 to 30 times slower at gradients of convolutions in a scan. The batch comes first, or else a batch
    split over devices could not stay split, and each device would gather it.
    """
    return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(-1, *x.shape[2:]), x)


def unfolded(x: jax.Array, rows: int, batch_size: int) -> jax.Array:
    """Undoes `folded` for features: [B*T, D] -> [T, B, D]."""
    return jnp.swapaxes(x.reshape(batch_size, rows, -1), 0, 1)


def _where(condition: jax.Array, x: jax.Array) -> jax.Array:
    """Keeps x [*S, ...] where condition [*S] holds; zeros elsewhere."""
    return jnp.where(condition.reshape(condition.shape + (1,) * (x.ndim - condition.ndim)), x, jnp.zeros_like(x))
