"""Recurrent cores: a network's state between steps, how policies act with it, and how learning starts from theirs.

The state before a sequence's first step is stored with it; from there the learner unrolls the core as acting did. With
newer params that state is stale, so the first steps may be a burn-in, which only brings it up to date. See "Recurrent
Experience Replay in Distributed Reinforcement Learning" (R2D2, https://openreview.net/forum?id=r1lyTjAqYX), section 3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import chex
import haiku as hk
import jax
import jax.numpy as jnp
from dm_env import specs

from boonta.agents import networks, sequences
from boonta.agents.base import Nest, Policy, Slots, Steps
from boonta.envs.base import FIRST, EnvSpec, TimeStep

Rows = TypeVar("Rows")
Outputs = TypeVar("Outputs")

T, B = 3, 2  # Sizes that a whole network is checked with.


class Inputs(NamedTuple):
    """What a recurrent network sees of T rows.

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


class Core(NamedTuple):
    """What a recurrent policy remembers before a step; the learner's unroll starts with it.

    Attributes:
      lstm: state [B, D], or () without a core.
      action_tm1: [B, ...], the last action, which the core sees.
    """

    lstm: Nest
    action_tm1: jax.Array


class State(NamedTuple):
    """A recurrent policy between steps.

    Attributes:
      frames: nest [B, ..., L-1], oldest first.
      core: `Core`.
      rung: float32 [B], the slots' places on a ladder of exploration; () where the agent has none.
    """

    frames: Nest
    core: Core
    rung: Nest


def recurrent_policy(
    network: Any,
    spec: EnvSpec,
    frame_stack: int,
    choose: Callable[[Nest, jax.Array, Any, Nest, Nest], tuple[jax.Array, Nest]],
    deterministic: bool,
    rungs: Callable[[Slots], Nest] = lambda slots: (),
) -> Policy:
    """Acts by an unroll of one row; its states are `State`.

    Args:
      network: a named tuple with the functions that `functions_of` makes; `unroll` takes the acting params.
      spec: the environment's spec.
      frame_stack: L.
      choose: `(acting params, key, the network's outputs [B], observation [B], rung [B]) -> (action [B, ...], extras)`.
      deterministic: whether it draws nothing.
      rungs: the slots' places on a ladder of exploration.
    """
    dtype = jnp.int32 if isinstance(spec.actions, specs.DiscreteArray) else spec.actions.dtype  # As `choose` gives it.

    def initial_state(slots: Slots) -> State:
        frames = sequences.no_frames(spec.observations, slots.size, frame_stack)
        action = jnp.zeros((slots.size, *spec.actions.shape), dtype)
        return State(frames, Core(network.initial_state(slots.size), action), rungs(slots))

    def step(params: Nest, key: jax.Array, timestep: TimeStep, state: State) -> tuple[jax.Array, Nest, State]:
        stack, frames = sequences.push(state.frames, timestep.observation, timestep.step_type)
        inputs = Inputs(stack, timestep.step_type, timestep.reward, state.core.action_tm1)
        inputs = jax.tree.map(lambda x: x[None], inputs)  # [1, B, ...]
        outputs, lstm = network.unroll(params, inputs, state.core.lstm)
        outputs = jax.tree.map(lambda x: x[0], outputs)  # [B, ...]
        action, extras = choose(params, key, outputs, timestep.observation, state.rung)
        return action, extras, State(frames, Core(lstm, action), state.rung)

    def executed(state: State, action: jax.Array) -> State:
        return state._replace(core=state.core._replace(action_tm1=jnp.asarray(action, dtype)))

    return Policy(initial_state, step, lambda state: state.core, deterministic, executed)


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


def inputs_as_acted(steps: Steps, frame_stack: int) -> tuple[Inputs, Nest, Steps]:
    """What the network saw in acting: steps [L-1+T, B] -> inputs [T, B], the LSTM's state before them, steps [T, B]."""
    stack = sequences.stack(steps.observation, steps.step_type, frame_stack)  # [T, B, ..., L]
    steps = sequences.drop_context(steps, frame_stack)
    core = jax.tree.map(lambda x: x[0], steps.core)  # [B]
    action_tm1 = jnp.concatenate([core.action_tm1[None], steps.action[:-1]])  # [T, B]
    return Inputs(stack, steps.step_type, steps.reward, action_tm1), core.lstm, steps


def functions_of(
    forward: Callable[[Inputs, Nest], tuple[Outputs, Nest]], spec: EnvSpec, frame_stack: int, lstm_size: int
) -> tuple[
    Callable[[jax.Array], Nest],
    Callable[[int], Nest],
    Callable[[Nest, Inputs, Nest], tuple[Outputs, Nest]],
]:
    """The pure functions of a recurrent network, `init`, `initial_state` and `unroll`; computes nothing yet.

    Args:
      forward: `(inputs [T, B], core state) -> (outputs [T, B], core state)`, a haiku function without randomness.
      spec: the environment's spec.
      frame_stack: L.
      lstm_size: size of the core, which `forward` unrolls by `unroll_lstm`; 0 is none.
    """
    transformed = hk.transform(forward)
    initial_state = functools.partial(initial_lstm, lstm_size)

    def init(key: jax.Array) -> Nest:
        return transformed.init(key, example_inputs(spec, frame_stack), initial_state(1))

    def unroll(params: Nest, inputs: Inputs, lstm: Nest) -> tuple[Outputs, Nest]:
        return transformed.apply(params, None, inputs, lstm)

    return init, initial_state, unroll


def checked_outputs(network: Any, spec: EnvSpec, frame_stack: int, kind: type = object) -> tuple[Any, Nest]:
    """The shapes of a user's whole network's outputs and state, for `T` rows of `B` slots; refuses what doesn't fit.

    Args:
      network: a named tuple with the functions that `functions_of` makes.
      spec: the environment's spec.
      frame_stack: L.
      kind: the class of its outputs; the default is for outputs that the caller checks as a whole.

    Raises:
      ValueError: the message says what isn't as it must be: params, the core's state, or what `unroll` returns.
    """
    params = networks.trace("init", lambda _: network.init(jax.random.PRNGKey(0)), ())
    networks.require_params(params)
    state = networks.trace("initial_state", lambda _: network.initial_state(B), ())
    if any(leaf.shape[:1] != (B,) for leaf in jax.tree.leaves(state)):
        got = networks.describe(state)
        raise ValueError(f"network: initial_state must return arrays [B={B}, ...], but returns {got}")
    inputs = jax.eval_shape(lambda: example_inputs(spec, frame_stack, T, B))
    unrolled = networks.trace("unroll", network.unroll, params, inputs, state)
    if not (isinstance(unrolled, tuple) and len(unrolled) == 2 and isinstance(unrolled[0], kind)):
        wanted = "values" if kind is object else kind.__name__
        raise ValueError(f"network: unroll must return ({wanted}, state), but returns {networks.describe(unrolled)}")
    outputs, after = unrolled
    networks.require_same("unroll's state", after, state, "initial_state's")
    return outputs, state


def initial_lstm(size: int, batch_size: int) -> Nest:
    """The initial state of a core: zeros [B, size], or () if the size is 0, which is no core."""
    if not size:
        return ()
    zeros = jnp.zeros((batch_size, size))
    return hk.LSTMState(hidden=zeros, cell=zeros)


def unroll_lstm(x: jax.Array, step_type: jax.Array, state: Nest, size: int) -> tuple[jax.Array, Nest]:
    """Runs an LSTM over T rows, from its initial state wherever an episode starts; a haiku function.

    Args:
      x: float32 [T, B, D].
      step_type: int32 [T, B].
      state: the state before the first row, as from `initial_lstm`.
      size: size of the core.

    Returns:
      float32 [T, B, size], and the state after the last row.
    """
    chex.assert_rank([x, step_type], [3, 2])
    return hk.dynamic_unroll(hk.ResetCore(hk.LSTM(size)), (x, step_type == FIRST), state)


def with_last(x: jax.Array, step_type: jax.Array, reward: jax.Array, action_tm1: jax.Array) -> jax.Array:
    """Appends the last reward and action to each row's features; they are zeros where an episode starts.

    Args:
      x: float32 [T, B, D].
      step_type: int32 [T, B].
      reward: float32 [T, B], raw; it is clipped, since a raw score could drown the features.
      action_tm1: float32 [T, B, F], as `heads.ActionHead.encode` gives it.

    Returns:
      float32 [T, B, D + 1 + F].
    """
    last = jnp.concatenate([jnp.clip(reward, -1, 1)[..., None], action_tm1], axis=-1)
    return jnp.concatenate([x, jnp.where((step_type == FIRST)[..., None], 0, last)], axis=-1)


def burn_in(
    unroll: Callable[[Nest, Rows, Nest], tuple[Outputs, Nest]], params: Nest, inputs: Rows, state: Nest, length: int
) -> tuple[Rows, Nest]:
    """Brings a stored state up to date with newer params by running over the first rows, without a gradient.

    Args:
      unroll: `(params, inputs [T, B], state [B]) -> (outputs [T, B], state [B])`.
      params: params of the network.
      inputs: nest [T, B, ...].
      state: nest [B, ...], the state before the first row.
      length: number of rows to run over, fewer than T; with 0 the stored state is used as it is.

    Returns:
      The other rows' inputs [T - length, B, ...], and the state before them.
    """
    if not length:
        return inputs, state
    _, state = unroll(params, jax.tree.map(lambda x: x[:length], inputs), state)
    return jax.tree.map(lambda x: x[length:], inputs), jax.lax.stop_gradient(state)
