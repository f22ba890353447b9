"""The environment contract: a factory that makes a batch of auto-resetting dm_env environments and carries its spec.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple, Protocol

import dm_env
import numpy as np
from dm_env import specs

FIRST = int(dm_env.StepType.FIRST)
MID = int(dm_env.StepType.MID)
LAST = int(dm_env.StepType.LAST)


class EnvSpec(NamedTuple):
    """What one slot of an environment takes and gives; no leaf has a batch axis.

    The first four fields are those of `acme.specs.EnvironmentSpec`.

    Attributes:
      observations: a nest of dm_env specs.
      actions: a `DiscreteArray` or a `BoundedArray`.
      rewards: float32 scalar; raw, never clipped: agents clip in their loss.
      discounts: float32 scalar in [0, 1].
      frames_per_step: simulator frames that one env step takes (Atari: the action repeat).
    """

    observations: Any
    actions: specs.Array
    rewards: specs.Array
    discounts: specs.BoundedArray
    frames_per_step: int = 1


class TimeStep(NamedTuple):
    """One step of every slot, with dm_env's field names.

    Each slot is an endless stream FIRST, MID…, LAST, FIRST, …: after LAST the next step is FIRST and ignores its action.

    Attributes:
      step_type: int32 [B], values of `dm_env.StepType`.
      reward: float32 [B], for the action that led here; 0 on FIRST.
      discount: float32 [B]; 0 on LAST is termination, above 0 on LAST is truncation; 1 on FIRST.
      observation: a nest of arrays [B, ...].
    """

    step_type: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    observation: Any


class Episode(NamedTuple):
    """A finished episode of the real game: raw score and length, whatever the agent sees clipped or cut at life loss."""

    episode_return: float
    env_steps: int


class BatchedEnv(abc.ABC):
    """B environment slots stepped together, in dm_env's vocabulary. Not thread-safe; use one per thread."""

    num_envs: int
    spec: EnvSpec

    @abc.abstractmethod
    def reset(self) -> TimeStep:
        """Starts every slot anew; returns FIRST steps [B]."""

    @abc.abstractmethod
    def step(self, action: np.ndarray) -> TimeStep:
        """Steps every slot with action [B, ...]; slots whose last step was LAST reset and ignore theirs."""

    @abc.abstractmethod
    def episodes(self) -> list[Episode]:
        """Takes the episodes finished since the last call."""

    def close(self) -> None:
        """Frees the simulator."""


class Env(Protocol):
    """A factory of batched environments; usually a frozen dataclass of the environment's settings, so it can be pickled."""

    @property
    def spec(self) -> EnvSpec: ...

    def __call__(self, num_envs: int, seed: int) -> BatchedEnv:
        """Makes `num_envs` slots; the same seed and actions give the same steps."""
        ...


class EpisodeTracker:
    """Adds up the raw return and length of the running episode of each slot; environments keep one for `episodes()`."""

    def __init__(self, num_envs: int):
        self._return = np.zeros(num_envs, np.float64)
        self._length = np.zeros(num_envs, np.int64)
        self._finished: list[Episode] = []

    def update(self, reward: np.ndarray, first: np.ndarray, ended: np.ndarray) -> None:
        """Accounts one step of every slot.

        Args:
          reward: raw reward [B].
          first: bool [B], this step starts a game: nothing is added.
          ended: bool [B], this step ends a game.
        """
        self._return = np.where(first, 0.0, self._return + reward)
        self._length = np.where(first, 0, self._length + 1)
        for i in np.flatnonzero(ended):
            self._finished.append(Episode(float(self._return[i]), int(self._length[i])))
            self._return[i] = 0.0
            self._length[i] = 0

    def take(self) -> list[Episode]:
        finished, self._finished = self._finished, []
        return finished
