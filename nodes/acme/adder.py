"""An Acme adder that writes any actor's experience into our tables."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import dm_env
import jax
import numpy as np
import tree
from acme.adders import base as adders

from boonta.agents.base import Agent, Nest, Slots, Steps
from boonta.envs.base import EnvSpec
from boonta.nodes.acme.acting import row_of
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.base import Node
from boonta.nodes.tables.base import Store
from boonta.nodes.tables.contract import written_by


def require_extras(agent: Agent, spec: EnvSpec, gives_extras: bool) -> None:
    """Refuses an agent that learns from what an Acme actor doesn't have: the extras of its own policy.

    Args:
      agent: has the tables, and the extras of a step.
      spec: spec of the environment.
      gives_extras: whether the actor gives its adder the agent's extras.

    Raises:
      ValueError: names the tables and the extras.
    """
    learned = [table.name for table in agent.tables if table.writer == "actor" and table.share > 0]
    if gives_extras or not learned:
        return
    if names := _names(step_shapes(agent, spec).extras):
        raise ValueError(
            f"the agent learns from {learned}, whose steps have extras {names} of its own policy. An Acme actor has "
            "none: let reanalyzers find them and learn from theirs alone (for MuZero, reanalyze_ratio 1 and a "
            "Reanalyzer), or set gives_extras if it gives its adder the same"
        )


class StepsAdder(adders.Adder):
    """Writes the steps of one actor into the tables that actors fill, as raw `Steps`.

    Acme's adders are given an action with the time step that it led to; our rows have a time step with the action taken
    in it, so a row is written one call later. The row of LAST is written at once, with an action and extras of zeros,
    which nothing reads: only an agent whose targets bootstrap from the extras of truncated episodes needs a policy that
    acts there, too. An episode that is given up counts as truncated. The core of each row is the policy's initial one,
    so that a recurrent learner begins each sequence as if nothing had been before.

    Args:
      agent: has the tables, and the extras of a step.
      spec: spec of the environment that the actor acts in.
      replay: a `nodes.tables.base.Store`, such as the handle of a replay server.
      node: waits for room in the tables and counts the sequences; a node of its own unless given.
      gives_extras: whether the actor gives `add` the agent's extras; else they are zeros, which only reanalyzers may
        read.
      version: the version of the params that act; 0 for an actor without any of ours.

    Raises:
      ValueError: see `require_extras`; or no table is for actors to fill.
    """

    def __init__(
        self,
        agent: Agent,
        spec: EnvSpec,
        replay: Store,
        node: Node | None = None,
        *,
        gives_extras: bool = False,
        version: Callable[[], int] = lambda: 0,
    ):
        require_extras(agent, spec, gives_extras)
        self._shapes = step_shapes(agent, spec)
        self._node = node or Node("acme")
        self._gives_extras = gives_extras
        self._version = version
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), self._shapes)
        self._nothing = zeros.action, zeros.extras
        self._core = jax.device_get(agent.policy.core(agent.policy.initial_state(Slots(1))))
        self._timestep: dm_env.TimeStep | None = None
        self._writer = replay.open_writer(written_by("actor", agent.tables), 1, self._node.wait_for, 0)

    def add_first(self, timestep: dm_env.TimeStep) -> None:
        self.reset()
        self._timestep = timestep._replace(step_type=dm_env.StepType.FIRST)

    def add(self, action: Nest, next_timestep: dm_env.TimeStep, extras: Nest = ()) -> None:
        """Adds the action that led to a time step.

        Raises:
          ValueError: there was no `add_first`; or a leaf doesn't fit the environment's spec or the agent's extras.
        """
        if self._timestep is None:
            raise ValueError("add_first must come before add, at the beginning of each episode")
        self._write(self._timestep, action, extras if self._gives_extras else self._nothing[1])
        self._timestep = next_timestep
        if next_timestep.last():
            self._end()

    def reset(self) -> None:
        """Ends an episode that has begun, as one that is truncated."""
        if self._timestep is not None and not self._timestep.first():
            self._timestep = self._timestep._replace(step_type=dm_env.StepType.LAST)
            self._end()
        self._timestep = None

    def close(self) -> None:
        """Frees the connection to the tables."""
        self._writer.close()

    def _end(self) -> None:
        assert self._timestep is not None
        self._write(self._timestep, *self._nothing)
        self._timestep = None

    def _write(self, timestep: dm_env.TimeStep, action: Nest, extras: Nest) -> None:
        shapes = self._shapes
        version = np.array([max(0, self._version())], np.int32)
        shown = row_of(timestep._replace(observation=_fitted("observation", timestep.observation, shapes.observation)))
        action, extras = _fitted("action", action, shapes.action), _fitted("extras", extras, shapes.extras)
        with self._node.stopwatch("writing"):
            row = Steps.of(shown, action, extras, version, self._core)
            self._node.count(sequences=self._writer.append(row))


def _fitted(name: str, given: Nest, shapes: Nest) -> Nest:
    """A nest of one row [1, ...] in the structure and dtypes of `shapes`; ValueError where that can't be."""
    try:
        tree.assert_same_structure(given, shapes, check_types=False)
        return tree.map_structure_with_path(functools.partial(_leaf, name), shapes, given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} has {_names(given)}; the agent's steps have {_names(shapes)}: {error}") from error


def _leaf(name: str, path: tuple[Any, ...], shape: Any, given: Any) -> np.ndarray:
    array = np.asarray(given)
    if array.shape != shape.shape:
        raise ValueError(f"{'/'.join(map(str, (name, *path)))} has shape {array.shape}, not {shape.shape}")
    return array.astype(shape.dtype, casting="same_kind")[None]


def _names(nest: Nest) -> list[str]:
    return ["/".join(map(str, path)) for path, _ in tree.flatten_with_path(nest)]
