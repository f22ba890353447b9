"""Specs that agents support: the check, which is the first part of `envs.conformance`, and numbers of 64 bits in 32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tree
from dm_env import specs

from boonta.envs import base

SHOWN = 5  # Limit of the leaves in a message.
# JAX computes with 32 bits, and tables keep what it computes with.
NARROWER: Mapping[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(wide): np.dtype(narrow)
    for wide, narrow in ((np.float64, np.float32), (np.int64, np.int32), (np.uint64, np.uint32))
}


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
        name = f"{name_of(path)} of observations"
        if np.issubdtype(leaf.dtype, np.floating) and leaf.dtype != np.float32:
            raise ConformanceError("real numbers are float32", f"{name} is {leaf.dtype}")
        if leaf.dtype != np.float32 and leaf.dtype.kind not in "biu":
            raise ConformanceError("observations are numbers: float32, integers or bools", f"{name} is {leaf.dtype}")
        _check_integers(leaf, name)
    if not isinstance(spec.actions, specs.BoundedArray):
        raise ConformanceError("actions is a DiscreteArray or a BoundedArray", repr(spec.actions))
    if spec.actions.dtype != np.float32 and not np.issubdtype(spec.actions.dtype, np.integer):
        raise ConformanceError("actions are integers or float32", repr(spec.actions))
    _check_integers(spec.actions, "actions")
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


def narrowed(spec: specs.Array) -> specs.Array:
    """The spec of the same numbers in a dtype that agents support; of discrete ones int32.

    The least and the greatest integer of 64 bits stand for no bound, as they do in Gymnasium; gym's are 2 within them.

    Raises:
      ValueError: 32 bits don't hold a bound of integers; the message shows the spec.
    """
    if isinstance(spec, specs.DiscreteArray):
        return specs.DiscreteArray(spec.num_values, np.int32, spec.name)
    dtype = NARROWER.get(spec.dtype)
    if dtype is None:
        return spec
    if not isinstance(spec, specs.BoundedArray):
        return specs.Array(spec.shape, dtype, spec.name)
    bounds = spec.minimum, spec.maximum
    if dtype.kind != "f":
        wide, narrow = np.iinfo(spec.dtype), np.iinfo(dtype)
        for bound in bounds:
            is_bound = (bound > wide.min + 2) & (bound < wide.max - 2)
            if (is_bound & ((bound < narrow.min) | (bound > narrow.max))).any():
                raise ValueError(
                    f"{spec} has a bound beyond {dtype}, as which agents take it: {narrow.min} to {narrow.max}; give "
                    "its numbers on another scale, or as float32"
                )
        bounds = tuple(np.clip(bound, narrow.min, narrow.max) for bound in bounds)
    with np.errstate(over="ignore"):  # A float64 bound beyond float32 becomes infinite.
        low, high = (bound.astype(dtype) for bound in bounds)
    return specs.BoundedArray(spec.shape, dtype, low, high, spec.name)


def _check_integers(leaf: specs.Array, name: str) -> None:
    """Asserts that a leaf's integers have at most 32 bits."""
    if np.issubdtype(leaf.dtype, np.integer) and leaf.dtype in NARROWER:
        raise ConformanceError("integers have at most 32 bits", f"{name} is {leaf.dtype}")


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
