"""The environment contract: a factory that makes a batch of auto-resetting dm_env environments and carries its spec.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

import abc
import difflib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import dm_env
import numpy as np
import tree
from dm_env import specs

FIRST = int(dm_env.StepType.FIRST)
MID = int(dm_env.StepType.MID)
LAST = int(dm_env.StepType.LAST)

PICTURE = (240, 320)  # Rows and columns of the pictures for people, where we choose them.
# Rows or columns of an observation. What an archive says isn't believed beyond it: specs of more would take gigabytes.
LONGEST_SIDE = 1_024
# The metadata of a dataclass's field, with a default, that changes no step of an environment: its speed, or metrics.
SAME_STEPS = {"same steps": True}
STEP_TYPE = specs.BoundedArray((), np.int32, FIRST, LAST, "step_type")
REWARD = specs.Array((), np.float32, "reward")
DISCOUNT = specs.BoundedArray((), np.float32, 0.0, 1.0, "discount")


def require_side(name: str, value: int, least: int = 1) -> None:
    """Raises ValueError, naming the setting, unless it can be the rows or the columns of an observation."""
    if not least <= value <= LONGEST_SIDE:
        raise ValueError(f"{name} is {value}; it must be from {least} to {LONGEST_SIDE}")


class EnvSpec(NamedTuple):
    """Specs of one slot's observations, actions, rewards and discounts; no leaf has a batch axis.

    The first four fields are those of `acme.specs.EnvironmentSpec`.

    Attributes:
      observations: a nest of dm_env specs.
      actions: a `DiscreteArray`; or a `BoundedArray`, of integers for several choices at once, or of real numbers.
      rewards: float32 scalar. Rewards are raw; agents that clip do so in their loss.
      discounts: float32 scalar in [0, 1].
      frames_per_step: simulator frames per env step (Atari: the action repeat).
      num_players: 1, or 2 for a zero-sum game whose players alternate in one stream. Observations are then a
        `BoardView`, and each reward is from the view of the player who acted: a winning move earns +1 whoever makes it,
        so the value of a position is the reward of its action minus the value of the next position.
    """

    observations: Any
    actions: specs.Array
    rewards: specs.Array = REWARD
    discounts: specs.BoundedArray = DISCOUNT
    frames_per_step: int = 1
    num_players: int = 1

    @property
    def timestep(self) -> TimeStep:
        """The specs of a time step."""
        return TimeStep(STEP_TYPE, self.rewards, self.discounts, self.observations)

    @property
    def shows_pictures(self) -> bool:
        """Whether all that is observed are pictures, large enough for the windows of Atari's networks."""
        seen = self.observations
        leaves = tree.flatten(seen.view if isinstance(seen, BoardView) else seen)
        return bool(leaves) and all(map(_is_picture, leaves))


def _is_picture(leaf: specs.Array) -> bool:
    return leaf.dtype == np.uint8 and len(leaf.shape) in (2, 3) and min(leaf.shape[:2]) >= 36


class BoardView(NamedTuple):
    """The observation where some actions are illegal, or two players take turns: agents take legal actions only.

    Attributes:
      view: a nest [B, ...], what the network sees. In a game of two it is float32, planes or flat: the position as the
        player to move sees it, and which player that is.
      legal: bool [B, A], at least one True; all True on LAST, where the action is ignored.
      player: int32 [B], 0 or 1 in alternation; on LAST the player whose turn it would be. Always 0 with one player.
    """

    view: Any
    legal: Any
    player: Any

    @classmethod
    def spec(cls, view: Any, num_actions: int, num_players: int = 1) -> BoardView:
        """The specs of a view's leaves, of the mask of A actions and of the player."""
        player = specs.BoundedArray((), np.int32, 0, num_players - 1, "player")
        return cls(view, specs.Array((num_actions,), bool, "legal"), player)


class TimeStep(NamedTuple):
    """One step of every slot, with dm_env's field names; numpy arrays, or JAX arrays inside a jitted policy.

    Each slot is an endless stream FIRST, MID…, LAST, FIRST, …: the step after LAST is FIRST and ignores its action.
    The caller may keep the arrays: no later step writes into them.

    Attributes:
      step_type: int32 [B], values of `dm_env.StepType`.
      reward: float32 [B], of the action that led here, from the view of the player who took it; 0 on FIRST.
      discount: float32 [B]; 0 on LAST is termination, above 0 on LAST is truncation; 1 on FIRST.
      observation: a nest of arrays [B, ...].
    """

    step_type: Any
    reward: Any
    discount: Any
    observation: Any


class Episode(NamedTuple):
    """A finished episode of the real game; a lost life doesn't end it, even where it is LAST for the agent.

    Attributes:
      slot: index of the slot that played it.
      episode_return: sum of raw rewards; with two players, the sum from player 0's view.
      env_steps: length of the episode in env steps.
      metrics: its other numbers by name, such as "is_success"; all episodes of an environment have the same ones.
    """

    slot: int
    episode_return: float
    env_steps: int
    metrics: Mapping[str, float] = MappingProxyType({})


class BatchedEnv(abc.ABC):
    """B environment slots stepped together, in dm_env's vocabulary. Not thread-safe; use one per thread."""

    num_envs: int
    spec: EnvSpec
    steps_per_s: float | None = None  # Env steps in a second of the simulated time, where there is such a time.

    @abc.abstractmethod
    def reset(self) -> TimeStep:
        """Resets every slot; returns FIRST steps [B]."""

    @abc.abstractmethod
    def step(self, action: np.ndarray) -> TimeStep:
        """Steps every slot with action [B, ...]; slots whose last step was LAST reset and ignore theirs.

        Real-valued actions are clipped to the spec's bounds.

        Raises:
          ValueError: the action doesn't have the shape or dtype of the spec, see `envs.actions.check_action`, or is
            illegal, see `check_legal`.
        """

    def executed_action(self, action: np.ndarray) -> np.ndarray:
        """Returns the action that the next `step(action)` will execute, [B, ...].

        It is the same action, except in an environment that replays stored steps and executes the recorded one.
        """
        return action

    @abc.abstractmethod
    def episodes(self) -> list[Episode]:
        """Returns the episodes that have finished since the last call."""

    def render(self) -> np.ndarray | None:
        """Draws every slot, uint8 [B, H, W, 3]; returns None where the observation is itself a picture."""
        return None

    def text(self, slot: int) -> str | None:
        """A slot's position as text, for people; None where `render` or the observation shows it."""
        return None

    def action_name(self, slot: int, action: int) -> str:
        """The name of an action that a slot can take now, for people."""
        return str(action)

    def close(self) -> None:  # noqa: B027  # Most environments have nothing to free.
        """Frees the simulator."""


class Env(Protocol):
    """A factory of batched environments; usually a frozen dataclass of settings, so that it can be pickled."""

    @property
    def spec(self) -> EnvSpec: ...

    def __call__(self, num_envs: int, seed: int) -> BatchedEnv:
        """Makes a batch of `num_envs` slots; the same seed and actions give the same steps."""
        ...


class Player(Protocol):
    """An opponent for matches that is not one of our networks; usually a frozen dataclass of its settings.

    It may read more of the environment than the timestep shows, so it may be restricted to some kinds of games.
    """

    def __call__(self, env: BatchedEnv, timestep: TimeStep, rng: np.random.Generator) -> np.ndarray:
        """Chooses an action for every slot of an environment whose last step was `timestep`.

        Args:
          env: the batch; the player may read it but must not step it.
          timestep: the last step of the B slots.
          rng: the source of the player's randomness.

        Returns:
          int32 [B]; any action in slots whose step is LAST, where it is ignored.
        """
        ...


class EpisodeTracker:
    """Accumulates each slot's raw return and episode length; environments use it to implement `episodes()`."""

    def __init__(self, num_envs: int):
        self._return = np.zeros(num_envs, np.float64)
        self._length = np.zeros(num_envs, np.int64)
        self._finished: list[Episode] = []

    def update(
        self,
        reward: np.ndarray,
        first: np.ndarray,
        ended: np.ndarray,
        metrics: Callable[[int], Mapping[str, Any]] = lambda slot: {},
    ) -> None:
        """Adds one step of every slot.

        Args:
          reward: raw reward [B].
          first: bool [B], whether this step starts a game; its reward isn't counted.
          ended: bool [B], whether this step ends a game.
          metrics: gives the numbers of a slot's game, see `Episode`; it is called for those that end.
        """
        self._return = np.where(first, 0.0, self._return + reward)
        self._length = np.where(first, 0, self._length + 1)
        for i in np.flatnonzero(ended):
            numbers = {name: float(value) for name, value in metrics(int(i)).items()}
            self._finished.append(Episode(int(i), float(self._return[i]), int(self._length[i]), numbers))
            self._return[i] = 0.0
            self._length[i] = 0

    def take(self) -> list[Episode]:
        """Returns the episodes that have finished since the last call."""
        finished, self._finished = self._finished, []
        return finished


def reward_of_player_0(timestep: TimeStep, num_players: int) -> np.ndarray:
    """The rewards [B] from player 0's view: player 1 acted where player 0 is to move now, and the game is zero-sum."""
    if num_players == 1:
        return timestep.reward
    return np.where(timestep.observation.player == 0, -timestep.reward, timestep.reward)


def step_types(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The step types, int32 [B], of slots by whether they are at FIRST and at LAST, bool [B]; FIRST outranks LAST."""
    return np.where(first, FIRST, np.where(last, LAST, MID)).astype(np.int32)


def slot_seeds(num_envs: int, seed: int) -> np.ndarray:
    """Derives a seed for each slot: int64 [B], each in [0, 2**31), so that simulators can store it as a C int.

    `seed + i` would not do: actors with neighbouring seeds would then share most of their slots' streams.

    Raises:
      ValueError: num_envs is below 1, or seed is negative.
    """
    if num_envs < 1:
        raise ValueError(f"num_envs is {num_envs}; it must be at least 1")
    if seed < 0:
        raise ValueError(f"seed is {seed}; it must be at least 0")
    return (np.random.SeedSequence(seed).generate_state(num_envs) >> 1).astype(np.int64)


def mixed_seed(*numbers: int) -> int:
    """A seed in [0, 2**31) of several numbers, such as a run's seed and how many evaluations there were.

    The sum would not do: the next evaluation of one run would have the same seed as this one of a neighbouring run.
    """
    return int(np.random.SeedSequence(numbers).generate_state(1)[0] >> 1)


def suggest(given: str, known: Iterable[str], shown: Callable[[str], str] = str) -> str:
    """Returns a hint for an unknown name: the nearest known names, or all of them if none is near.

    Args:
      given: the unknown name.
      known: the known names, normalised as `given` is.
      shown: maps a known name to its spelling in the hint.
    """
    known = list(known)
    near = [repr(shown(match)) for match in difflib.get_close_matches(given, known, n=3, cutoff=0.5)]
    return f"did you mean {' or '.join(near)}?" if near else f"allowed: {', '.join(map(shown, known))}."
