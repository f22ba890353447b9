"""The check of what an environment returns, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import tree
from dm_env import specs

from boonta.envs.base import EnvSpec, TimeStep
from boonta.envs.spec_check import misfit, name_of


class StepCheck:
    """Refuses time steps of a batch that are not as the spec says, or have NaN: agents may learn from them in silence.

    Tables keep the bytes of a leaf, which are other numbers in another dtype.

    Whoever steps an environment passes every time step through one of these. Whether real numbers are within their
    bounds isn't looked at; `envs.conformance` does that.

    Args:
      spec: the environment's spec.
      num_envs: B, its slots.
    """

    def __init__(self, spec: EnvSpec, num_envs: int):
        self._step = -1  # The number of the last step; that of `reset` is 0.
        self._spec = spec.timestep
        kinds = tree.flatten(self._spec)
        self._shapes = [(num_envs, *kind.shape) for kind in kinds]
        self._dtypes = [np.dtype(kind.dtype) for kind in kinds]
        self._choices = [(i, kind.num_values) for i, kind in enumerate(kinds) if isinstance(kind, specs.DiscreteArray)]

    def __call__(self, timestep: TimeStep) -> TimeStep:
        """Returns the same time step [B]; leaves that aren't numpy arrays, and may be on a device, are not read.

        Raises:
          ValueError: a leaf has another shape or dtype than the spec says, or is none of its choices.
          FloatingPointError: a leaf has a NaN. The messages have the leaf, the slot and the step.
        """
        self._step += 1
        leaves = self.leaves(timestep)
        for i, (leaf, dtype) in enumerate(zip(leaves, self._dtypes)):
            if isinstance(leaf, np.ndarray) and leaf.dtype != dtype:
                name = name_of(tree.flatten_with_path(timestep)[i][0])
                raise ValueError(f"the environment's {name} is {leaf.dtype}; by its spec it is {dtype}")
        for i, choices in self._choices:
            leaf = leaves[i]
            if isinstance(leaf, np.ndarray) and not 0 <= leaf.min() <= leaf.max() < choices:
                wrong = (leaf < 0) | (leaf >= choices)
                raise ValueError(f"{self._place(timestep, i, wrong)}; its spec has the choices from 0 to {choices - 1}")
        for i, leaf in enumerate(leaves):
            if _has_nan(leaf):
                raise FloatingPointError(f"{self._place(timestep, i, np.isnan(leaf))} of its stream")
        return timestep

    def leaves(self, timestep: TimeStep) -> list[Any]:
        """Returns the leaves [B, ...] of a time step, of which only the shapes are checked.

        Raises:
          ValueError: a leaf has another shape than the spec says.
        """
        leaves = tree.flatten(timestep)
        if [np.shape(leaf) for leaf in leaves] != self._shapes:
            raise ValueError(f"the environment's {self._other_shape(timestep)}")
        return leaves

    def _other_shape(self, timestep: TimeStep) -> str:
        """The first leaf whose shape isn't the spec's, or the leaves that one of the two doesn't have."""
        named = tree.flatten_with_path(timestep)
        if len(named) != len(self._shapes):
            return f"time step has other arrays than its spec: {misfit(self._spec, timestep)}"
        path, found, wanted = next(
            (path, np.shape(leaf), shape) for (path, leaf), shape in zip(named, self._shapes) if np.shape(leaf) != shape
        )
        return f"{name_of(path)} has the shape {list(found)}; by its spec and the number of slots it is {list(wanted)}"

    def _place(self, timestep: TimeStep, i: int, wrong: np.ndarray) -> str:
        """The first number of leaf i that is wrong, by a mask [B, ...], and where it is."""
        path, leaf = tree.flatten_with_path(timestep)[i]
        slot, *place = where = tuple(map(int, np.argwhere(wrong)[0]))
        name = name_of(path) + (str(place) if place else "")
        return f"the environment's {name} is {leaf[where]} in slot {slot} at step {self._step:,}"


def as_specified(spec: specs.Array, given: np.ndarray) -> np.ndarray:
    """A leaf's numbers in the dtype of its spec; the same array if it has that dtype.

    numpy would make other integers of those that the dtype doesn't hold, and of fractions, without a word.

    Args:
      spec: the leaf's spec.
      given: the environment's numbers, of one slot or of all.

    Raises:
      ValueError: the spec has integers, and its dtype doesn't hold a number, such as 0.5, or -1 if it is unsigned.
    """
    if given.dtype == spec.dtype:
        return given
    with np.errstate(invalid="ignore"):  # The cast of NaN or an infinity, which is refused below.
        made = given.astype(spec.dtype)
    if made.dtype.kind in "iu" and (wrong := given != made).any():
        raise ValueError(f"{spec.name or 'an observation'} has {given[wrong][0]}, which {made.dtype} doesn't hold")
    return made


def _has_nan(leaf: Any) -> bool:
    """Whether a numpy array of real numbers has a NaN, which its sum of squares then is, too: it takes no copy."""
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f" and bool(np.isnan(np.vdot(leaf, leaf)))
