"""How actor-critics act: they draw from the policy head, or take its likeliest action; and how learning retraces it."""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax

from boonta.agents.base import Nest, Policy, Steps
from boonta.agents.heads import ActionHead
from boonta.agents.policy_value import Network, Outputs
from boonta.agents.recurrence import inputs_as_acted, recurrent_policy
from boonta.envs.base import EnvSpec


class Extras(NamedTuple):
    """What the learner needs to know of a step.

    Attributes:
      logits: float32 [B, P], the parameters of the behaviour policy.
    """

    logits: jax.Array


def make_policy(
    network: Network, head: ActionHead, spec: EnvSpec, frame_stack: int, mode: Literal["greedy", "sample"]
) -> Policy:
    """Acts by the policy head.

    Args:
      network: acting params are its params.
      head: the action head, which makes the policy's distribution.
      spec: the environment's spec.
      frame_stack: L, frames the network sees at once.
      mode: "sample" draws from the policy, "greedy" takes its likeliest action.

    Returns:
      `Policy`; actions are [B, ...], extras `Extras`.
    """

    def choose(params: Nest, key: jax.Array, outputs: Outputs, *_: Nest) -> tuple[jax.Array, Extras]:
        del params
        policy = head.distribution(outputs.logits)  # [B, P]
        return policy.mode() if mode == "greedy" else policy.sample(key), Extras(outputs.logits)

    return recurrent_policy(network, spec, frame_stack, choose, mode == "greedy")


def unroll_as_acted(params: Nest, steps: Steps, network: Network, frame_stack: int) -> tuple[Outputs, Steps]:
    """Runs the network over a sequence as acting ran it: steps [L-1+T+1, B] -> outputs and steps [T+1, B]."""
    inputs, lstm, steps = inputs_as_acted(steps, frame_stack)
    outputs, _ = network.unroll(params, inputs, lstm)
    return outputs, steps
