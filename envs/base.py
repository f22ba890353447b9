"""The environment contract: a factory that makes a batch of auto-resetting dm_env environments and carries its spec.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

import abc
import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import dm_env
import numpy as np
import tree
from dm_env import specs

FIRST = int(dm_env.StepType.FIRST)
MID = int(dm_env.StepType.MID)
LAST = int(dm_env.StepType.LAST)

REWARD = specs.Array((), np.float32, "reward")
DISCOUNT = specs.BoundedArray((), np.float32, 0.0, 1.0, "discount")


class EnvSpec(NamedTuple):
    """What one slot of an environment takes and gives; no leaf has a batch axis.

    The first four fields are those of `acme.specs.EnvironmentSpec`.

    Attributes:
      observations: a nest of dm_env specs.
      actions: a `DiscreteArray` or a `BoundedArray`.
      rewards: float32 scalar; raw, never clipped: agents clip in their loss.
      discounts: float32 scalar in [0, 1].
      frames_per_step: simulator frames that one env step takes (Atari: the action repeat).
      num_players: 2 for a zero-sum game in which one stream holds the moves of both, turn and turn about. Observations
        are then a `BoardView`, and a reward is counted for the player whose action led to it: a winning move earns +1
        whoever makes it, so that the value of a position is its reward minus the value of the next.
    """

    observations: Any
    actions: specs.Array
    rewards: specs.Array = REWARD
    discounts: specs.BoundedArray = DISCOUNT
    frames_per_step: int = 1
    num_players: int = 1


class BoardView(NamedTuple):
    """What the player to move sees: the observation of games with turns, or with actions that are not always legal.

    Attributes:
      view: float32 [B, ...], planes or flat, as that player sees the position; it also tells who the player is.
      legal: bool [B, A], at least one True; on LAST all True, for the action there is ignored.
      player: int32 [B], 0 or 1, in turns; on LAST the one whose turn it would be. Always 0 where one plays alone.
    """

    view: Any
    legal: Any
    player: Any


class TimeStep(NamedTuple):
    """One step of every slot, with dm_env's field names. Environments give numpy arrays; a jitted policy sees JAX's.

    Each slot is an endless stream FIRST, MID…, LAST, FIRST, …: the step after LAST is FIRST and ignores its action.
    The arrays are the receiver's to keep: no later step writes into them.

    Attributes:
      step_type: int32 [B], values of `dm_env.StepType`.
      reward: float32 [B], for the action that led here, counted for the player who took it; 0 on FIRST.
      discount: float32 [B]; 0 on LAST is termination, above 0 on LAST is truncation; 1 on FIRST.
      observation: a nest of arrays [B, ...].
    """

    step_type: Any
    reward: Any
    discount: Any
    observation: Any


class Episode(NamedTuple):
    """A finished episode of the real game: raw score and length, whatever the agent sees cut at life loss.

    Attributes:
      slot: which of the batch's slots played it.
      episode_return: sum of raw rewards; of two players the sum for player 0, the other's reward being its loss.
      env_steps: steps taken.
    """

    slot: int
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
        """Steps every slot with action [B, ...]; slots whose last step was LAST reset and ignore theirs.

        Raises:
          ValueError: the action has not the shape or dtype of the spec, see `check_action`.
        """

    def taken(self, action: np.ndarray) -> np.ndarray:
        """What the world takes for the action [B, ...] chosen in the step shown last; asked before `step`.

        It is that action, except in a world that plays the past back and has its own.
        """
        return action

    @abc.abstractmethod
    def episodes(self) -> list[Episode]:
        """Takes the episodes finished since the last call."""

    def render(self) -> np.ndarray | None:
        """Draws every slot as it is now, uint8 [B, H, W, 3]; None where the observation itself is the picture."""
        return None

    def close(self) -> None:  # noqa: B027  # most environments hold nothing to free
        """Frees the simulator."""


class Env(Protocol):
    """Makes batched environments; usually a frozen dataclass of the environment's settings, so it can be pickled."""

    @property
    def spec(self) -> EnvSpec: ...

    def __call__(self, num_envs: int, seed: int) -> BatchedEnv:
        """Makes `num_envs` slots; the same seed and actions give the same steps."""
        ...


class Player(Protocol):
    """Chooses actions by other means than a network of ours, for matches; usually a frozen dataclass of its settings.

    It may look at more of the environment than the timestep shows, and belongs to the games that it understands.
    """

    def __call__(self, env: BatchedEnv, timestep: TimeStep, rng: np.random.Generator) -> np.ndarray:
        """Chooses an action for every slot of an environment whose last step was `timestep`.

        Args:
          env: is read, never stepped.
          timestep: of B slots.
          rng: for whatever the player draws.

        Returns:
          int32 [B]; any action in slots whose step is LAST, where it is ignored.
        """
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
            self._finished.append(Episode(int(i), float(self._return[i]), int(self._length[i])))
            self._return[i] = 0.0
            self._length[i] = 0

    def take(self) -> list[Episode]:
        """Gives the episodes finished since the last call."""
        finished, self._finished = self._finished, []
        return finished


def slot_seeds(num_envs: int, seed: int) -> np.ndarray:
    """Spreads one seed over the slots: int64 [B], each in [0, 2**31), as far as simulators with C ints take them.

    Not `seed + i`: actors with neighbouring seeds would then share most of their slots' streams.

    Raises:
      ValueError: num_envs is below 1, or seed is negative.
    """
    if num_envs < 1:
        raise ValueError(f"num_envs is {num_envs}; it must be at least 1")
    if seed < 0:
        raise ValueError(f"seed is {seed}; it must be at least 0")
    return (np.random.SeedSequence(seed).generate_state(num_envs) >> 1).astype(np.int64)


def suggest(given: str, known: Iterable[str], shown: Callable[[str], str] = str) -> str:
    """What to give instead of a name that is none of those known, in words: the nearest, or else all.

    Args:
      given: the name.
      known: others, spelled as `given` is.
      shown: how a known one is to be spelled.
    """
    known = list(known)
    near = [repr(shown(match)) for match in difflib.get_close_matches(given, known, n=3, cutoff=0.5)]
    return f"did you mean {' or '.join(near)}?" if near else f"allowed: {', '.join(map(shown, known))}"


def check_action(action: Any, spec: specs.Array, num_envs: int) -> np.ndarray:
    """Refuses an action that no slot could take; simulators that are handed one answer with nonsense, or never.

    Real-valued actions out of bounds pass: worlds clip them, each in its own way.

    Args:
      action: [B, ...], anything that numpy takes for an array.
      spec: of one slot's action.
      num_envs: B.

    Returns:
      The action as a numpy array.

    Raises:
      ValueError: wrong shape, a discrete action that is not an integer, or one out of range.
    """
    action = np.asarray(action)
    shape = (num_envs, *spec.shape)
    if action.shape != shape:
        raise ValueError(f"action has shape {action.shape}; it must be {shape}")
    if isinstance(spec, specs.DiscreteArray):
        if not np.issubdtype(action.dtype, np.integer):
            raise ValueError(f"action has dtype {action.dtype}; a discrete action must be an integer")
        outside = (action < 0) | (action >= spec.num_values)
        if outside.any():
            slot = int(np.argmax(outside))
            raise ValueError(f"action of slot {slot} is {action[slot]}; allowed: 0 to {spec.num_values - 1}")
    return action


class LoopedEnv(BatchedEnv):
    """Steps single dm_env environments one after another: the short way in for a world that has no batch of its own."""

    def __init__(self, envs: Sequence[dm_env.Environment], spec: EnvSpec):
        """Takes the B environments, each seeded for itself, and the spec that they share."""
        self.num_envs = len(envs)
        self.spec = spec
        self._envs = envs
        self._last = np.zeros(len(envs), bool)  # [B], the slot's last step was LAST
        self._tracker = EpisodeTracker(len(envs))

    def reset(self) -> TimeStep:
        return self._batch([env.reset() for env in self._envs])

    def step(self, action: np.ndarray) -> TimeStep:
        action = check_action(action, self.spec.actions, self.num_envs)
        return self._batch(
            [env.reset() if last else env.step(a) for env, a, last in zip(self._envs, action, self._last)]
        )

    def episodes(self) -> list[Episode]:
        return self._tracker.take()

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _batch(self, steps: list[dm_env.TimeStep]) -> TimeStep:
        step_type = np.array([step.step_type for step in steps], np.int32)
        # dm_env leaves the reward and discount of FIRST None.
        reward = np.array([0.0 if step.first() else step.reward for step in steps], np.float32)
        discount = np.array([1.0 if step.first() else step.discount for step in steps], np.float32)
        observation = tree.map_structure(
            lambda spec, *leaves: np.stack(leaves, dtype=spec.dtype),
            self.spec.observations,
            *[step.observation for step in steps],
        )
        self._last = step_type == LAST
        self._tracker.update(reward, first=step_type == FIRST, ended=self._last)
        return TimeStep(step_type, reward, discount, observation)
