"""The actor-critic network: a torso or one for each head, an optional recurrent core, heads for policy and value.

A user's own network is a torso below these heads, or the whole as a `Network`.

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

from boonta.agents import networks
from boonta.agents.base import Nest
from boonta.agents.heads import ActionHead, scalar_head
from boonta.agents.impala.config import Config
from boonta.agents.recurrence import initial_lstm, unroll_lstm, with_last
from boonta.envs.base import EnvSpec


class Inputs(NamedTuple):
    """What the network sees of T rows.

    Attributes:
      stack: nest of frames [T, B, ..., L], as the environment shows them, oldest first.
      step_type: int32 [T, B]; the core starts anew where it is FIRST.
      reward: float32 [T, B], raw; ignored where `step_type` is FIRST.
      action_tm1: [T, B, ...], the row before's, as the env takes it; ignored where `step_type` is FIRST.
    """

    stack: Nest
    step_type: jax.Array
    reward: jax.Array
    action_tm1: jax.Array


class Outputs(NamedTuple):
    """The network's output for T rows.

    Attributes:
      logits: float32 [T, B, P], parameters of the policy, see `heads.ActionHead`; of discrete actions their logits.
      value: float32 [T, B].
    """

    logits: jax.Array
    value: jax.Array


class Network(NamedTuple):
    """Pure functions; acting is an unroll of one row.

    Attributes:
      init: `(key) -> params`, a nest of float32.
      initial_state: `(batch_size) -> core state`, a nest [B, ...], or () without a core.
      unroll: `(params, inputs [T, B], core state) -> (outputs [T, B], core state)`. The state is the one before the
        first row, then after the last, with the same shapes. The network resets it where an episode starts.
    """

    init: Callable[[jax.Array], Nest]
    initial_state: Callable[[int], Nest]
    unroll: Callable[[Nest, Inputs, Nest], tuple[Outputs, Nest]]


def make_network(config: Config, spec: EnvSpec, head: ActionHead, torso: networks.MakeTorso | None = None) -> Network:
    """Makes the network; computes nothing yet.

    Args:
      config: hyper-parameters.
      spec: the environment's spec.
      head: the action head, which makes the policy's distribution.
      torso: makes torsos in place of the config's; their features are [N, D].

    Raises:
      ValueError: the config's torso can't take such frames.
    """
    make_torso = networks.encoder(config.torso, spec.observations) if torso is None else torso

    def forward(inputs: Inputs, lstm: Nest) -> tuple[Outputs, Nest]:
        chex.assert_rank([inputs.step_type, inputs.reward], 2)
        t, b = inputs.step_type.shape
        # Time is folded into the batch: XLA on CPU is 10 to 30 times slower at gradients of convolutions in a scan. The
        # batch comes first, or else a batch split over devices could not stay split, and each device would gather it.
        stack = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(b * t, *x.shape[2:]), inputs.stack)  # [B*T, ...]

        def features(name: str) -> jax.Array:
            x = make_torso(name=name)(stack)  # [B*T, D]
            return jnp.swapaxes(x.reshape(b, t, -1), 0, 1)  # [T, B, D]

        x = features("torso")
        if config.lstm_size:
            x = with_last(x, inputs.step_type, inputs.reward, head.encode(inputs.action_tm1))
            x, lstm = unroll_lstm(x, inputs.step_type, lstm, config.lstm_size)
        logits = head.layer(x, "policy")  # [T, B, P]
        if config.value_torso == "own":
            x = features("value_torso")
        return Outputs(logits, scalar_head(x, "value")), lstm

    transformed = hk.transform(forward)
    initial_state = functools.partial(initial_lstm, config.lstm_size)

    def init(key: jax.Array) -> Nest:
        return transformed.init(key, example_inputs(spec, config.frame_stack), initial_state(1))

    def unroll(params: Nest, inputs: Inputs, lstm: Nest) -> tuple[Outputs, Nest]:
        return transformed.apply(params, None, inputs, lstm)

    return Network(init, initial_state, unroll)


def example_inputs(spec: EnvSpec, frame_stack: int, rows: int = 1, batch_size: int = 1) -> Inputs:
    """Zeros as inputs of a network, for its `init`: leaves [T, B, ...].

    Args:
      spec: the environment's spec.
      frame_stack: L.
      rows: T.
      batch_size: B.
    """
    shapes = networks.frames(spec.observations, frame_stack, rows, batch_size)
    number = jnp.zeros((rows, batch_size), jnp.int32)
    action = jnp.zeros((rows, batch_size, *spec.actions.shape), spec.actions.dtype)
    stack = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    return Inputs(stack, number, number.astype(jnp.float32), action)
