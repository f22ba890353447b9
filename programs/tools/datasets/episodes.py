"""Episodes of a data set: what every format has in common, and their way into an archive.

Glossary of shapes: T env steps of an episode.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from dm_env import specs

from boonta.agents.base import Nest, Steps
from boonta.envs.base import FIRST, LAST, MID, Env, EnvSpec
from boonta.nodes.archive.files import write_archive
from boonta.nodes.archive.index import Index, leaves, require_columns, types


class Episode(NamedTuple):
    """An episode, or the recorded part of one, with the values of an environment's spec; their types may be wider.

    Attributes:
      observation: nest [T + 1, ...]; leaves that the spec doesn't have are left out.
      action: [T, ...]; action t was chosen at observation t.
      reward: [T]; reward t belongs to action t.
      terminated, truncated: bool [T], whether action t ended the episode, and how; a termination counts where both are.
        Where no action ended it, the rest of the episode wasn't recorded.
      begun: whether the first observation is that of a reset.
    """

    observation: Nest
    action: Any
    reward: Any
    terminated: Any
    truncated: Any
    begun: bool = True


def write(out: pathlib.Path, env: Env, episodes: Iterable[Episode]) -> Index:
    """Writes episodes as an archive, which is there as a whole or not at all.

    Args:
      out: the archive's folder; it must not exist yet or be empty.
      env: the environment in which they were recorded.
      episodes: the episodes; those without any action are left out.

    Raises:
      ValueError: the folder is not empty, there is no episode, or one doesn't fit the environment's spec, and the
        message has its number, from 0.
    """

    def trajectories() -> Iterator[Steps]:
        for number, episode in enumerate(episodes):
            if len(episode.reward):
                try:
                    yield to_steps(episode, env.spec)
                except ValueError as error:
                    raise ValueError(f"episode {number}: {error}") from error

    return write_archive(out, env, trajectories())


def require_same(name: str, recorded: EnvSpec, spec: EnvSpec) -> None:
    """Raises ValueError, naming what differs, if a data set's spec lacks what an environment's spec has."""
    there, here = ({"observation": each.observations, "action": each.actions} for each in (recorded, spec))
    require_columns(name, types(there), types(here))
    held, wanted = (getattr(each.actions, "num_values", None) for each in (recorded, spec))
    if held != wanted:
        raise ValueError(f"{name} has {held} actions; the environment has {wanted}")


def to_steps(episode: Episode, spec: EnvSpec) -> Steps:
    """Converts an episode to rows of an archive, leaves [T + 1, ...].

    Row t holds observation t, action t, and the reward of action t - 1. The last row, which no action was chosen in,
    repeats the last action. Real-valued actions are clipped to their bounds, as environments do.

    Raises:
      ValueError: a leaf is missing, or has another shape or kind of numbers; a number is NaN, or an integer is out of
        its range; or the episode has ended before its last action. The message has the step, from 0.
    """
    steps = len(episode.reward)
    held, wanted = leaves({"observation": episode.observation}), leaves({"observation": spec.observations})
    if missing := sorted(wanted.keys() - held.keys()):
        raise ValueError(f"it has no {missing[0]!r}; it has {', '.join(held)}")
    observation = [_checked(path, held[path], leaf, steps + 1) for path, leaf in wanted.items()]
    action = _checked("action", episode.action, spec.actions, steps)
    if isinstance(spec.actions, specs.BoundedArray):
        action = np.clip(action, spec.actions.minimum, spec.actions.maximum)
    reward = _checked("reward", episode.reward, spec.rewards, steps)
    terminated, truncated = (np.asarray(ends, bool) for ends in (episode.terminated, episode.truncated))
    ended = terminated | truncated
    if ended[:-1].any():
        raise ValueError(f"step {ended.argmax()} ended it, but it has {steps} steps")
    step_type = np.full(steps + 1, MID, np.int32)
    step_type[0] = FIRST if episode.begun else MID
    step_type[-1] = LAST if ended[-1] else MID
    return Steps(
        observation=jax.tree.unflatten(jax.tree.structure(spec.observations), observation),
        step_type=step_type,
        reward=np.concatenate([np.zeros(1, reward.dtype), reward]),
        discount=np.concatenate([[1], ~terminated]).astype(spec.discounts.dtype),
        action=np.concatenate([action, action[-1:]]),
        extras=(),
        version=np.zeros(steps + 1, np.int32),
    )


def _checked(name: str, values: Any, spec: specs.Array, length: int) -> np.ndarray:
    """The values as the spec has them, [length, ...]."""
    values, shape = np.asarray(values), (length, *spec.shape)
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}; it must be {shape}")
    if not np.can_cast(values.dtype, spec.dtype, "same_kind"):
        raise ValueError(f"{name} is of {values.dtype}; it must be of {spec.dtype}")
    invalid = np.isnan(values) if values.dtype.kind == "f" else np.zeros(shape, bool)
    allowed = "a number"
    if values.dtype.kind in "iu":
        low, high = _limits(spec)
        invalid, allowed = (values < low) | (values > high), f"from {low} to {high}"
    if invalid.any():
        step, *_ = place = tuple(np.argwhere(invalid)[0])
        raise ValueError(f"{name} of step {step} is {values[place]}; it must be {allowed}")
    return values.astype(spec.dtype)


def _limits(spec: specs.Array) -> tuple[Any, Any]:
    """The least and the greatest number that a spec allows."""
    if isinstance(spec, specs.BoundedArray):
        return spec.minimum, spec.maximum
    if spec.dtype.kind not in "iu":
        return -np.inf, np.inf
    return np.iinfo(spec.dtype).min, np.iinfo(spec.dtype).max
