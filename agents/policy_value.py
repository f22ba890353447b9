"""The actor-critic network: a torso or one for each head, an optional recurrent core, heads for policy and value.

Agents that learn a policy and its value share it. A user's own network is a torso below these heads, or the whole as a
`Network`.

See "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
(https://arxiv.org/abs/1802.01561), Figure 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import chex
import jax

from boonta.agents import encoders, networks
from boonta.agents.base import Nest
from boonta.agents.config import require
from boonta.agents.groups import Torso
from boonta.agents.heads import ActionHead, mask_illegal, scalar_head
from boonta.agents.normalisation import normalise_stack
from boonta.agents.recurrence import B, Inputs, T, checked_outputs, functions_of, unroll_lstm, with_last
from boonta.agents.sequences import folded, unfolded
from boonta.agents.views import view_of, with_view
from boonta.envs.base import BoardView, EnvSpec

ALONE = "for a game of two: in a match a side isn't told the other's actions, which a core sees"


class Outputs(NamedTuple):
    """The network's output for T rows.

    Attributes:
      logits: float32 [T, B, P], the parameters of the action head; of discrete actions a logit for each.
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


def normalising(network: Network) -> Network:
    """The same network, whose unrolls take `(params, moments)` and normalise what is seen."""

    def unroll(params: Nest, inputs: Inputs, state: Nest) -> tuple[Outputs, Nest]:
        own, moments = params
        seen = normalise_stack(view_of(inputs.stack), moments)
        return network.unroll(own, inputs._replace(stack=with_view(inputs.stack, seen)), state)

    return network._replace(unroll=unroll)


class NetworkConfig(Protocol):
    """What the network needs of an agent's config.

    Attributes:
      torso: the network below the heads.
      value_torso: whether policy and value share it.
      lstm_size: size of the recurrent core; 0 is none.
      frame_stack: L, frames that the network sees at once.
    """

    @property
    def torso(self) -> Torso: ...
    @property
    def value_torso(self) -> Literal["shared", "own"]: ...
    @property
    def lstm_size(self) -> int: ...
    @property
    def frame_stack(self) -> int: ...


def make_network(
    config: NetworkConfig,
    spec: EnvSpec,
    head: ActionHead,
    torso: networks.MakeTorso | None = None,
    whole: str = "a Network",
) -> Network:
    """Makes the network; computes nothing yet.

    Args:
      config: hyper-parameters.
      spec: the environment's spec.
      head: the action head, which makes the policy's distribution.
      torso: makes torsos in place of the config's; their features are [N, D].
      whole: the name of the agent's whole network, for messages.

    Raises:
      ValueError: the torso can't take such frames, or its features don't fit.
    """
    make_torso = networks.torso_for(config.torso, torso, whole, view_of(spec.observations), config.frame_stack)
    policy_init, value_init = (encoders.weights(config.torso, scale) for scale in (0.01, 1.0))

    def forward(inputs: Inputs, lstm: Nest) -> tuple[Outputs, Nest]:
        chex.assert_rank([inputs.step_type, inputs.reward], 2)
        t, b = inputs.step_type.shape
        stack = folded(view_of(inputs.stack))  # [B*T, ...]

        def features(name: str) -> jax.Array:
            return unfolded(make_torso(name=name)(stack), t, b)  # [T, B, D]

        x = features("torso")
        if config.lstm_size:
            x = with_last(x, inputs.step_type, inputs.reward, head.encode(inputs.action_tm1))
            x, lstm = unroll_lstm(x, inputs.step_type, lstm, config.lstm_size)
        logits = head.layer(x, "policy", policy_init)  # [T, B, P]
        if config.value_torso == "own":
            x = features("value_torso")
        return Outputs(logits, scalar_head(x, "value", value_init)), lstm

    return Network(*functions_of(forward, spec, config.frame_stack, config.lstm_size))


def open_network(
    agent: str, config: NetworkConfig, spec: EnvSpec, head: ActionHead, own: networks.MakeTorso | Network | None
) -> Network:
    """The network of an agent: the config's, or a user's own, checked. Illegal actions get no probability from it.

    Args:
      agent: the agent's package, for messages.
      config: the agent's hyper-parameters.
      spec: the environment's spec.
      head: the action head, which makes the policy's distribution.
      own: a torso, which takes the place of the config's; a `Network`, that of its core and heads, too; or None.

    Raises:
      ValueError: the network has a core, but the environment is a game of two; the network can't take the observations;
        or an output of one's own doesn't fit, and the message says what it must be.
    """
    require(config, "lstm_size", spec.num_players == 1 or config.lstm_size == 0, f"0 {ALONE}")
    if isinstance(own, Network):
        check_network(own, config, spec, head)
        network = own
    else:
        network = make_network(config, spec, head, own, f"{agent}.Network")
    return among_legal(network) if isinstance(spec.observations, BoardView) else network


def among_legal(network: Network) -> Network:
    """The same network with the logits of actions masked that the newest frame, a `BoardView`, says are illegal."""

    def unroll(params: Nest, inputs: Inputs, state: Nest) -> tuple[Outputs, Nest]:
        outputs, state = network.unroll(params, inputs, state)
        return outputs._replace(logits=mask_illegal(outputs.logits, inputs.stack.legal[..., -1])), state

    return network._replace(unroll=unroll)


def check_network(network: Network, config: NetworkConfig, spec: EnvSpec, head: ActionHead) -> None:
    """Refuses a whole network whose outputs or state don't fit, and a config with parts that it doesn't have.

    Args:
      network: a user's own.
      config: the agent's hyper-parameters.
      spec: the environment's spec.
      head: the action head, which makes the policy's distribution.

    Raises:
      ValueError: the message says which output or field, what it is, and what it must be.
    """
    require(config, "lstm_size", config.lstm_size == 0, "0 where network is a whole one, whose core is its own")
    require(config, "value_torso", config.value_torso == "shared", "'shared' where network is a whole one")
    outputs, state = checked_outputs(network, spec, config.frame_stack, Outputs)
    if spec.num_players != 1 and jax.tree.leaves(state):
        raise ValueError(f"network: initial_state must return () {ALONE}, but returns {networks.describe(state)}")
    networks.require_array("unroll's logits", outputs.logits, {"T": T, "B": B, "P": head.size})
    networks.require_array("unroll's value", outputs.value, {"T": T, "B": B})
