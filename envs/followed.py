"""A board game with an OpenSpiel game of the same rules beside it, for players that read OpenSpiel's states.

Glossary of shapes: B batch (environment slots stepped together).
"""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np

from boonta.envs import base
from boonta.envs.jax.pgx import Pgx
from boonta.envs.open_spiel import OpenSpiel
from boonta.envs.wrapped import WrappedEnv


@dataclasses.dataclass(frozen=True)
class Followed:
    """Behaves as `env`, and plays the same actions in an OpenSpiel game beside it.

    Attributes:
      env: a game of two players, such as `Pgx("connect_four")`.
      by: the OpenSpiel game with the same rules and the same numbering of actions.

    Raises:
      ValueError: the numbers of actions or players differ. Other differences are found while playing.
    """

    env: base.Env
    by: OpenSpiel

    def __post_init__(self) -> None:
        ours, theirs = self.env.spec, self.by.spec
        if (ours.actions.num_values, ours.num_players) != (theirs.actions.num_values, theirs.num_players):
            raise ValueError(
                f"by is {self.by.game!r}, which has {theirs.actions.num_values} actions and {theirs.num_players} "
                f"players; env has {ours.actions.num_values} and {ours.num_players}"
            )

    @property
    def spec(self) -> base.EnvSpec:
        return self.env.spec

    def __call__(self, num_envs: int, seed: int) -> FollowedBatch:
        return FollowedBatch(self, num_envs, seed)


def with_open_spiel_states(env: base.Env) -> base.Env:
    """Adds OpenSpiel's game to a game of pgx, for players and pictures that read OpenSpiel's states.

    Raises:
      ValueError: OpenSpiel has no such game, or one with another number of actions.
    """
    return Followed(env, OpenSpiel(env.game)) if isinstance(env, Pgx) else env


class FollowedBatch(WrappedEnv):
    """The batch of the game and the batch of the OpenSpiel game that follows it.

    Attributes:
      follower: the OpenSpiel batch.
    """

    def __init__(self, settings: Followed, num_envs: int, seed: int):
        super().__init__(settings.env(num_envs, seed))
        self.follower = settings.by(num_envs, seed)
        self._name = settings.by.game

    def reset(self) -> base.TimeStep:
        return self._same(self.env.reset(), self.follower.reset())

    def step(self, action: np.ndarray) -> base.TimeStep:
        return self._same(self.env.step(action), self.follower.step(action))

    def text(self, slot: int) -> str:
        return self.follower.text(slot)

    def action_name(self, slot: int, action: int) -> str:
        return self.follower.action_name(slot, action)

    def close(self) -> None:
        with contextlib.closing(self.env), contextlib.closing(self.follower):
            pass

    def _same(self, ours: base.TimeStep, theirs: base.TimeStep) -> base.TimeStep:
        """Returns our step after comparing it with the follower's.

        Raises:
          ValueError: the rules differ.
        """
        for field in ("step_type", "reward", "discount"):
            self._require(field, getattr(ours, field), getattr(theirs, field))
        for field in ("legal", "player"):
            self._require(field, getattr(ours.observation, field), getattr(theirs.observation, field))
        return ours

    def _require(self, field: str, ours: np.ndarray, theirs: np.ndarray) -> None:
        if not np.array_equal(ours, theirs):
            slot = int(np.argwhere(ours != theirs)[0][0])
            raise ValueError(
                f"{self._name} of OpenSpiel has other rules: in slot {slot} its {field} is {theirs[slot].tolist()}, "
                f"not {ours[slot].tolist()}"
            )
