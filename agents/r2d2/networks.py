"""R2D2's network: a torso, an LSTM that also sees the last action and reward, and a dueling head."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import chex
import haiku as hk
import jax

from boonta.agents import networks
from boonta.agents.base import Nest
from boonta.agents.encoders import perceptron
from boonta.agents.heads import dueling
from boonta.agents.r2d2.config import Config
from boonta.agents.recurrence import Inputs, functions_of, unroll_lstm, with_last
from boonta.agents.sequences import folded, unfolded
from boonta.agents.views import view_of
from boonta.envs.base import EnvSpec


class Network(NamedTuple):
    """Pure functions; acting is an unroll of one row.

    Attributes:
      init: `(key) -> params`, a nest of float32.
      initial_state: `(batch_size) -> core state`, a nest [B, ...].
      unroll: `(params, inputs [T, B], core state) -> (action values float32 [T, B, A], core state)`. The state is the
        one before the first row, then after the last. The network resets it where an episode starts.
    """

    init: Callable[[jax.Array], Nest]
    initial_state: Callable[[int], Nest]
    unroll: Callable[[Nest, Inputs, Nest], tuple[jax.Array, Nest]]


def make_network(config: Config, spec: EnvSpec, torso: networks.MakeTorso | None = None) -> Network:
    """Makes the network; computes nothing yet.

    Args:
      config: hyper-parameters.
      spec: the environment's spec.
      torso: makes the torso in place of the config's; its features are [N, D].

    Raises:
      ValueError: the torso can't take such frames, or its features don't fit.
    """
    num_actions = spec.actions.num_values
    view = view_of(spec.observations)
    make_torso = networks.torso_for(config.torso, torso, "r2d2.Network", view, config.frame_stack)
    hidden = [config.head_width] if config.head_width else []

    def stream(x: jax.Array, size: int, name: str) -> jax.Array:
        return hk.Linear(size, name=name)(perceptron(x, hidden, f"{name}_hidden", normalised=False))[..., None]

    def forward(inputs: Inputs, lstm: Nest) -> tuple[jax.Array, Nest]:
        chex.assert_rank([inputs.step_type, inputs.reward, inputs.action_tm1], 2)
        action_tm1 = jax.nn.one_hot(inputs.action_tm1, num_actions)
        x = unfolded(make_torso(name="torso")(folded(view_of(inputs.stack))), *inputs.step_type.shape)  # [T, B, D]
        x = with_last(x, inputs.step_type, inputs.reward, action_tm1)
        x, lstm = unroll_lstm(x, inputs.step_type, lstm, config.lstm_size)
        return dueling(stream(x, num_actions, "advantage"), stream(x, 1, "state_value"))[..., 0], lstm

    return Network(*functions_of(forward, spec, config.frame_stack, config.lstm_size))
