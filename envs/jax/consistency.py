"""Compares a JAX environment, step by step, with its twin: an ordinary environment with the same rules.

    consistency.check(Catch(), catch.Catch(), start=ball_of_the_twin)

See "WarpDrive: Extremely Fast End-to-End Deep Multi-Agent Reinforcement Learning on a GPU"
(https://arxiv.org/abs/2108.13976), whose consistency checker steps an environment on CPU and GPU with the same actions.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import tree
from dm_env import specs

from boonta.envs import base
from boonta.envs.actions import random_actions
from boonta.envs.jax.base import Game, Nest

Start = Callable[[base.TimeStep, int, Nest], Nest]
Adapt = Callable[[Nest], Nest]
Choose = Callable[[base.TimeStep, np.random.Generator], np.ndarray]


class ConsistencyError(AssertionError):
    """Raised where an environment and its twin differ first; the message gives step, slot, field and both values."""


def check(
    env: Game,
    twin: base.Env,
    start: Start | None = None,
    adapt: Adapt = lambda observation: observation,
    choose: Choose | None = None,
    num_envs: int = 4,
    steps: int = 200,
    seed: int = 0,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> int:
    """Steps both with the same actions, and compares every field of every step.

    At each FIRST, `start` copies the initial state that the twin has drawn into the JAX environment. The rules must be
    deterministic from there on, so switch randomness off (`sticky_actions=0`).

    Args:
      env: the JAX environment.
      twin: the environment that it must equal.
      start: `(timestep, slot, state) -> state`: receives a step of the twin [B, ...], a slot in which it is FIRST, and
        the JAX game's state there; returns the state that shows the same. None if all episodes begin alike.
      adapt: converts the twin's observation [B, ...] to the layout of the JAX environment's.
      choose: `(timestep, rng) -> action`, from the twin's steps [B, ...]; None for random actions, legal ones where the
        observation gives them.
      num_envs: B.
      steps: number of steps after the first.
      seed: seed of the twin, the JAX environment and the actions.
      rtol, atol: tolerances of `numpy.isclose`; by default numbers must be equal.

    Returns:
      The number of episodes that ended; a test should assert that it isn't 0.

    Raises:
      ConsistencyError: the two differ.
      ValueError: the two have different action specs.
    """
    if env.spec.actions != twin.spec.actions:
        raise ValueError(f"the actions are {env.spec.actions}, and the twin's {twin.spec.actions}; they must be equal")
    batch, rng, ended = twin(num_envs, seed), np.random.default_rng(seed), 0
    begin, step, show = (jax.jit(jax.vmap(function)) for function in (env.init, env.step, env.observe))
    try:
        theirs = batch.reset()
        state, ours = begin(jax.random.split(jax.random.PRNGKey(seed), num_envs))
        for t in range(steps + 1):
            if t > 0:
                action = choose(theirs, rng) if choose else _actions(env.spec.actions, theirs, rng)
                theirs = batch.step(action)
                state, ours = step(state, action)
            first = theirs.step_type == base.FIRST
            if first.any() and start is not None:
                state = state._replace(game=_started(state.game, start, theirs, first))
                ours = ours._replace(observation=_chosen(first, show(state.game), ours.observation))
            _compare(jax.device_get(ours), theirs._replace(observation=adapt(theirs.observation)), t, rtol, atol)
            ended += int(np.sum(theirs.step_type == base.LAST))
    finally:
        batch.close()
    return ended


def _started(game: Nest, start: Start, timestep: base.TimeStep, first: np.ndarray) -> Nest:
    """Returns the games' states [B, ...] with those slots replaced by the twin's start that begin now, first [B]."""
    game = jax.tree.map(np.array, jax.device_get(game))  # Writable copies.
    for slot in np.flatnonzero(first):
        drawn = jax.tree.map(lambda leaf, slot=slot: leaf[slot], game)
        like = start(timestep, int(slot), drawn)
        for leaf, value in zip(jax.tree.leaves(game), jax.tree.leaves(like), strict=True):
            leaf[slot] = value
    return game


def _chosen(first: np.ndarray, ones: Nest, others: Nest) -> Nest:
    """Selects, leaf by leaf, `ones` in the slots that begin, first [B], and `others` elsewhere."""

    def choose(one: jax.Array, other: jax.Array) -> np.ndarray:
        return np.where(first.reshape(-1, *(1,) * (one.ndim - 1)), one, other)

    return jax.tree.map(choose, ones, others)


def _compare(ours: base.TimeStep, theirs: base.TimeStep, t: int, rtol: float, atol: float) -> None:
    """Asserts that two steps [B, ...] are equal.

    Raises:
      ConsistencyError: they differ.
    """
    try:
        tree.assert_same_structure(ours, theirs)
    except (TypeError, ValueError) as error:
        raise ConsistencyError(f"step {t}: the observations have not the same structure: {error}") from None
    for (path, a), b in zip(tree.flatten_with_path(ours), tree.flatten(theirs)):
        field = ".".join(map(str, path))
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise ConsistencyError(
                f"step {t}, {field}: {a.dtype}{list(a.shape)}, and the twin's {b.dtype}{list(b.shape)}"
            )
        differs = np.argwhere(~np.isclose(a, b, rtol=rtol, atol=atol))
        if len(differs):
            at = tuple(differs[0])
            place = f"{field}{list(map(int, at[1:]))}" if len(at) > 1 else field
            raise ConsistencyError(
                f"step {t}, slot {at[0]}, {place}: {a[at]}, and the twin's {b[at]}"
                f" ({len(differs)} of {a.size} numbers of {field} differ)"
            )


def _actions(spec: specs.BoundedArray, timestep: base.TimeStep, rng: np.random.Generator) -> np.ndarray:
    """Draws random actions [B, ...], legal ones where the observation gives them."""
    num_envs = len(timestep.step_type)
    if isinstance(timestep.observation, base.BoardView):
        return np.array([rng.choice(np.flatnonzero(legal)) for legal in timestep.observation.legal], spec.dtype)
    return random_actions(spec, (num_envs,), rng)
