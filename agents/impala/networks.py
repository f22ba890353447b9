"""The actor-critic network: a torso or one for each head, an optional recurrent core, heads for policy and value.

See "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
(https://arxiv.org/abs/1802.01561), Figure 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import chex
import haiku as hk
import jax
import jax.numpy as jnp
from dm_env import specs

from boonta.agents.base import Nest
from boonta.agents.encoders import encode
from boonta.agents.impala.config import Config
from boonta.envs.base import FIRST


class Inputs(NamedTuple):
    """What the network sees of T rows.

    Attributes:
      stack: frames [T, B, ..., L].
      step_type: int32 [T, B]; the core starts anew where it is FIRST.
      reward: float32 [T, B], raw; ignored where `step_type` is FIRST.
      action_tm1: int32 [T, B], the row before's; ignored where `step_type` is FIRST.
    """

    stack: jax.Array
    step_type: jax.Array
    reward: jax.Array
    action_tm1: jax.Array


class Outputs(NamedTuple):
    """What the network says of T rows.

    Attributes:
      logits: float32 [T, B, A].
      value: float32 [T, B].
    """

    logits: jax.Array
    value: jax.Array


class Network(NamedTuple):
    """Pure functions; acting is an unroll of one row.

    Attributes:
      init: `(key) -> params`.
      initial_lstm: `(batch_size) -> core state [B, D]`, or () without a core.
      unroll: `(params, inputs [T, B], core state [B, D]) -> (outputs [T, B], core state [B, D])`.
    """

    init: Callable[[jax.Array], Nest]
    initial_lstm: Callable[[int], Nest]
    unroll: Callable[[Nest, Inputs, Nest], tuple[Outputs, Nest]]


def make_network(config: Config, observation: specs.Array, num_actions: int) -> Network:
    """Makes the network for one frame of `observation` and `num_actions` actions; computes nothing yet."""

    def forward(inputs: Inputs, lstm: Nest) -> tuple[Outputs, Nest]:
        chex.assert_rank([inputs.step_type, inputs.reward, inputs.action_tm1], 2)
        t, b = inputs.step_type.shape
        # Time is folded into the batch: XLA on CPU is 10 to 30 times slower at gradients of convolutions in a scan. The
        # batch comes first, or else a batch split over devices could not stay split, and each device would gather it.
        stack = jnp.swapaxes(inputs.stack, 0, 1).reshape(b * t, *inputs.stack.shape[2:])  # [B*T, ...]

        def features() -> jax.Array:
            x = encode(config.torso, stack, observation)  # [B*T, D]
            return jnp.swapaxes(x.reshape(b, t, -1), 0, 1)  # [T, B, D]

        x = features()
        if config.lstm_size:
            x, lstm = _recur(x, inputs, lstm, config.lstm_size, num_actions)
        logits = hk.Linear(num_actions, name="policy")(x)  # [T, B, A]
        if config.value_torso == "own":
            x = features()
        value = hk.Linear(1, name="value")(x)[..., 0]  # [T, B]
        return Outputs(logits, value), lstm

    transformed = hk.transform(forward)

    def initial_lstm(batch_size: int) -> Nest:
        if not config.lstm_size:
            return ()
        zeros = jnp.zeros((batch_size, config.lstm_size))
        return hk.LSTMState(hidden=zeros, cell=zeros)

    def init(key: jax.Array) -> Nest:
        stack = jnp.zeros((1, 1, *observation.shape, config.frame_stack), observation.dtype)
        number = jnp.zeros((1, 1), jnp.int32)
        return transformed.init(key, Inputs(stack, number, number.astype(jnp.float32), number), initial_lstm(1))

    def unroll(params: Nest, inputs: Inputs, lstm: Nest) -> tuple[Outputs, Nest]:
        return transformed.apply(params, None, inputs, lstm)

    return Network(init, initial_lstm, unroll)


def _recur(x: jax.Array, inputs: Inputs, lstm: Nest, size: int, num_actions: int) -> tuple[jax.Array, Nest]:
    """Runs the LSTM over features and the last action and reward: [T, B, D] -> [T, B, size] and its last state."""
    first = inputs.step_type == FIRST  # [T, B]
    action = jax.nn.one_hot(jnp.where(first, -1, inputs.action_tm1), num_actions)  # [T, B, A]; none on FIRST
    reward = jnp.where(first, 0, jnp.clip(inputs.reward, -1, 1))  # [T, B]; a raw score could drown the features
    x = jnp.concatenate([x, reward[..., None], action], axis=-1)
    return hk.dynamic_unroll(hk.ResetCore(hk.LSTM(size)), (x, first), lstm)
