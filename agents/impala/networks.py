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

from boonta.agents import networks
from boonta.agents.base import Nest
from boonta.agents.heads import ActionHead, scalar_head
from boonta.agents.impala.config import Config
from boonta.agents.recurrence import (
    Inputs,
    example_inputs,
    folded,
    initial_lstm,
    unfolded,
    unroll_lstm,
    with_last,
)
from boonta.envs.base import EnvSpec


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
        stack = folded(inputs.stack)  # [B*T, ...]

        def features(name: str) -> jax.Array:
            return unfolded(make_torso(name=name)(stack), t, b)  # [T, B, D]

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
