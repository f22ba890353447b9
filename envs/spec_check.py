"""Checks that an environment's spec is one that agents support: the first part of `envs.conformance`."""

from __future__ import annotations

import numpy as np
import tree
from dm_env import specs

from boonta.envs import base

SHOWN = 5  # Limit of the leaves in a message.


class ConformanceError(AssertionError):
    """Raised when an environment breaks a rule; the message gives the rule, what was seen instead, and where."""

    def __init__(self, rule: str, seen: str, slot: int | None = None, step: int | None = None):
        place = "".join(f", {name} {i}" for name, i in (("slot", slot), ("step", step)) if i is not None)
        super().__init__(f"rule: {rule}; seen: {seen}{place}")


def check_spec(env: base.Env) -> None:
    """Asserts that an environment's spec consists of dm_env specs that agents support.

    Raises:
      ConformanceError: it doesn't.
    """
    spec = getattr(env, "spec", None)  # Environments of Gymnasium have one of their own.
    if not isinstance(spec, base.EnvSpec):
        raise ConformanceError("spec is an EnvSpec", f"{spec!r}{adapter_of(env)}")
    for path, leaf in tree.flatten_with_path(spec.observations):
        if not isinstance(leaf, specs.Array):
            raise ConformanceError("observations is a nest of dm_env specs", f"{name_of(path)}: {leaf!r}")
        if np.issubdtype(leaf.dtype, np.floating) and leaf.dtype != np.float32:
            raise ConformanceError("real numbers are float32", f"{name_of(path)} of observations is {leaf.dtype}")
    if not isinstance(spec.actions, specs.BoundedArray):
        raise ConformanceError("actions is a DiscreteArray or a BoundedArray", repr(spec.actions))
    if spec.actions.dtype != np.float32 and not np.issubdtype(spec.actions.dtype, np.integer):
        raise ConformanceError("actions are integers or float32", repr(spec.actions))
    if isinstance(spec.observations, base.BoardView):
        _check_board(spec.observations, spec.actions)
    for name in ("rewards", "discounts"):
        leaf = getattr(spec, name)
        if not isinstance(leaf, specs.Array) or leaf.shape != () or leaf.dtype != np.float32:
            raise ConformanceError(f"{name} is a float32 scalar", repr(leaf))
    bounds = spec.discounts
    if not isinstance(bounds, specs.BoundedArray) or bounds.minimum < 0 or bounds.maximum > 1:
        raise ConformanceError("discounts is bounded by 0 and 1", repr(bounds))
    if not isinstance(spec.frames_per_step, int) or spec.frames_per_step < 1:
        raise ConformanceError("frames_per_step is an int of at least 1", repr(spec.frames_per_step))
    if spec.num_players != 1 and not (spec.num_players == 2 and isinstance(spec.observations, base.BoardView)):
        raise ConformanceError("there is one player, or two who see a BoardView", f"{spec.num_players} players")


def _check_board(view: base.BoardView, actions: specs.Array) -> None:
    """Asserts that a `BoardView` of specs has a mask with a place for each action, and a number for the player."""
    if not isinstance(actions, specs.DiscreteArray):
        raise ConformanceError("actions of a BoardView are a DiscreteArray", repr(actions))
    legal, player = view.legal, view.player
    if not isinstance(legal, specs.Array) or legal.shape != (actions.num_values,) or legal.dtype != bool:
        raise ConformanceError(f"legal of a BoardView is bool [{actions.num_values}], one for each action", repr(legal))
    if not isinstance(player, specs.Array) or player.shape != () or player.dtype != np.int32:
        raise ConformanceError("player of a BoardView is an int32 scalar", repr(player))


def adapter_of(env: object) -> str:
    """The end of a message about what is no `Env`: the adapter that makes one of it; empty if none is known."""
    kind = type(env).__name__
    if hasattr(env, "observation_space"):
        return f"; as one of Gymnasium's, return Gymnasium({kind}), of boonta.envs.gymnasium"
    if hasattr(env, "observation_spec"):
        return f"; as one of dm_env's, return DmEnv({kind}), of boonta.envs.dm_env"
    return ""


def name_of(path: tuple) -> str:
    """The name of a leaf, by its path in a nest."""
    return ".".join(map(str, path)) or "the observation"


def misfit(wanted: base.TimeStep, given: base.TimeStep) -> str:
    """The leaves that a time step lacks, and those that it has besides."""
    asked, had = ({name_of(path) for path, _ in tree.flatten_with_path(nest)} for nest in (wanted, given))
    lacks, besides = (", ".join(sorted(names)[:SHOWN]) for names in (asked - had, had - asked))
    found = [f"{what} {names}" for what, names in (("it lacks", lacks), ("it has besides", besides)) if names]
    return "; ".join(found) or "other kinds of nests, such as a dict for a named tuple"
