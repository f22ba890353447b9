"""The actor-critic network: a torso or one for each head, an optional recurrent core, heads for policy and value.

See "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
(https://arxiv.org/abs/1802.01561), Figure 3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import chex
import haiku as hk
import jax
import jax.numpy as jnp

from boonta.agents.base import Nest
from boonta.agents.encoders import encode
from boonta.agents.heads import scalar_head
from boonta.agents.impala.config import Config
from boonta.agents.recurrence import initial_lstm, unroll_lstm, with_last


class Inputs(NamedTuple):
    """What the network sees of T rows.

    Attributes:
      stack: nest of frames [T, B, ..., L].
      step_type: int32 [T, B]; the core starts anew where it is FIRST.
      reward: float32 [T, B], raw; ignored where `step_type` is FIRST.
      action_tm1: int32 [T, B], the row before's; ignored where `step_type` is FIRST.
    """

    stack: Nest
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


def make_network(config: Config, observation: Nest, num_actions: int) -> Network:
    """Makes the network for one frame of `observation`, a nest of specs; computes nothing yet."""

    def forward(inputs: Inputs, lstm: Nest) -> tuple[Outputs, Nest]:
        chex.assert_rank([inputs.step_type, inputs.reward, inputs.action_tm1], 2)
        t, b = inputs.step_type.shape
        # Time is folded into the batch: XLA on CPU is 10 to 30 times slower at gradients of convolutions in a scan. The
        # batch comes first, or else a batch split over devices could not stay split, and each device would gather it.
        stack = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(b * t, *x.shape[2:]), inputs.stack)  # [B*T, ...]

        def features(name: str) -> jax.Array:
            x = encode(config.torso, stack, observation, name)  # [B*T, D]
            return jnp.swapaxes(x.reshape(b, t, -1), 0, 1)  # [T, B, D]

        x = features("torso")
        if config.lstm_size:
            x = with_last(x, inputs.step_type, inputs.reward, inputs.action_tm1, num_actions)
            x, lstm = unroll_lstm(x, inputs.step_type, lstm, config.lstm_size)
        logits = hk.Linear(num_actions, name="policy")(x)  # [T, B, A]
        if config.value_torso == "own":
            x = features("value_torso")
        return Outputs(logits, scalar_head(x, "value")), lstm

    transformed = hk.transform(forward)

    def init(key: jax.Array) -> Nest:
        stack = jax.tree.map(lambda x: jnp.zeros((1, 1, *x.shape, config.frame_stack), x.dtype), observation)
        number = jnp.zeros((1, 1), jnp.int32)
        return transformed.init(
            key, Inputs(stack, number, number.astype(jnp.float32), number), initial_lstm(config.lstm_size, 1)
        )

    def unroll(params: Nest, inputs: Inputs, lstm: Nest) -> tuple[Outputs, Nest]:
        return transformed.apply(params, None, inputs, lstm)

    return Network(init, functools.partial(initial_lstm, config.lstm_size), unroll)
