"""How actor-critics act: they draw from the policy head, or take its likeliest action; and how learning retraces it."""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from boonta.agents import sequences
from boonta.agents.base import Nest, Policy, Slots, Steps
from boonta.agents.heads import ActionHead
from boonta.agents.policy_value import Network, Outputs
from boonta.agents.recurrence import Core, Inputs, inputs_as_acted
from boonta.envs.base import EnvSpec, TimeStep


class State(NamedTuple):
    """Between steps.

    Attributes:
      frames: nest [B, ..., L-1], oldest first.
      core: `Core`.
    """

    frames: Nest
    core: Core


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
      `Policy`; actions are [B, ...], extras `Extras`, states `State`.
    """

    def initial_state(slots: Slots) -> State:
        frames = sequences.no_frames(spec.observations, slots.size, frame_stack)
        action = jnp.zeros((slots.size, *spec.actions.shape), spec.actions.dtype)
        return State(frames, Core(network.initial_state(slots.size), action))

    def step(params: Nest, key: jax.Array, timestep: TimeStep, state: State) -> tuple[jax.Array, Extras, State]:
        stack, frames = sequences.push(state.frames, timestep.observation, timestep.step_type)
        inputs = Inputs(stack, timestep.step_type, timestep.reward, state.core.action_tm1)
        inputs = jax.tree.map(lambda x: x[None], inputs)  # [1, B, ...]
        outputs, lstm = network.unroll(params, inputs, state.core.lstm)
        logits = outputs.logits[0]  # [B, P]
        policy = head.distribution(logits)
        action = policy.mode() if mode == "greedy" else policy.sample(key)
        return action, Extras(logits), State(frames, Core(lstm, action))

    def executed(state: State, action: jax.Array) -> State:
        return state._replace(core=state.core._replace(action_tm1=jnp.asarray(action, spec.actions.dtype)))

    return Policy(initial_state, step, lambda state: state.core, mode == "greedy", executed)


def unroll_as_acted(params: Nest, steps: Steps, network: Network, frame_stack: int) -> tuple[Outputs, Steps]:
    """Runs the network over a sequence as acting ran it: steps [L-1+T+1, B] -> outputs and steps [T+1, B]."""
    inputs, lstm, steps = inputs_as_acted(steps, frame_stack)
    outputs, _ = network.unroll(params, inputs, lstm)
    return outputs, steps
