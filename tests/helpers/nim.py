"""Nim, a small game of two, with an agent and a player for it; tests of matches use them."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from dm_env import specs

from boonta.agents.base import Agent, Policy, Update
from boonta.envs import base
from boonta.envs.actions import check_action


@dataclasses.dataclass(frozen=True)
class Nim:
    """Nim with one heap: players take one, two or three in turn, and whoever takes the last one wins.

    The player to move loses with a heap of 4, 8, … against perfect play.

    Attributes:
      heap: size of the heap at the start.
      draw_at: the game ends in a draw when the heap has this size; -1 for never.
    """

    heap: int = 5
    draw_at: int = -1

    @property
    def spec(self) -> base.EnvSpec:
        observations = base.BoardView(
            specs.BoundedArray((1,), np.float32, 0, self.heap, "heap"),
            specs.BoundedArray((3,), bool, False, True, "legal"),
            specs.BoundedArray((), np.int32, 0, 1, "player"),
        )
        return base.EnvSpec(observations, specs.DiscreteArray(3, np.int32, "action"), num_players=2)

    def __call__(self, num_envs: int, seed: int) -> base.BatchedEnv:
        del seed
        return _NimBatch(self, num_envs)


class _NimBatch(base.BatchedEnv):
    def __init__(self, game: Nim, num_envs: int):
        self.num_envs, self.spec, self._game = num_envs, game.spec, game
        self._finished: list[base.Episode] = []

    def reset(self) -> base.TimeStep:
        self.heap = np.full(self.num_envs, self._game.heap)
        self._moves = np.zeros(self.num_envs, int)
        return self._timestep(np.zeros(self.num_envs, np.float32))

    def step(self, action: np.ndarray) -> base.TimeStep:
        action = check_action(action, self.spec.actions, self.num_envs)
        fresh = self._over()
        if (action + 1 > self.heap)[~fresh].any():
            raise ValueError("an illegal move")
        self.heap = np.where(fresh, self._game.heap, self.heap - action - 1)
        self._moves = np.where(fresh, 0, self._moves + 1)
        reward = np.where(~fresh & (self.heap == 0), 1.0, 0.0).astype(np.float32)
        for i in np.flatnonzero(self._over() & ~fresh):
            sign = 1 if self._moves[i] % 2 else -1  # Player 0 makes the odd moves.
            self._finished.append(base.Episode(int(i), float(sign * reward[i]), int(self._moves[i])))
        return self._timestep(reward)

    def episodes(self) -> list[base.Episode]:
        finished, self._finished = self._finished, []
        return finished

    def _over(self) -> np.ndarray:
        return (self.heap == 0) | (self.heap == self._game.draw_at)

    def _timestep(self, reward: np.ndarray) -> base.TimeStep:
        over = self._over()
        step_type = np.where(over, base.LAST, np.where(self._moves == 0, base.FIRST, base.MID)).astype(np.int32)
        legal = (np.arange(3) < self.heap[:, None]) | over[:, None]
        view = base.BoardView(self.heap[:, None].astype(np.float32), legal, (self._moves % 2).astype(np.int32))
        return base.TimeStep(step_type, reward, np.where(over, 0.0, 1.0).astype(np.float32), view)


@dataclasses.dataclass
class Take:
    """A player that always takes `number`, or as many as are left; `asked` counts its moves."""

    number: int
    asked: int = 0

    def __call__(self, env, timestep, rng):
        wanted = timestep.step_type != base.LAST
        self.asked += int(wanted.sum())
        return np.where(wanted, np.minimum(self.number, env.heap) - 1, 0).astype(np.int32)


def params(number: int) -> dict:
    return {"number": np.full((1,), number, np.int32)}


def agent() -> Agent:
    """An agent that takes the number in its params; if that is 0, the number of steps that it has seen of this game."""

    def act(params, key, timestep, seen):
        seen = jnp.where(timestep.step_type == base.FIRST, 1, seen + 1)
        number = jnp.where(params["number"] > 0, params["number"], seen)
        heap = timestep.observation.view[:, 0].astype(jnp.int32)
        return jnp.maximum(0, jnp.minimum(jnp.minimum(number, 3), heap) - 1), {}, seen

    policy = Policy(lambda slots: jnp.zeros(slots.size, jnp.int32), act)
    update = Update(
        lambda key: {"number": jnp.ones((1,), jnp.int32)}, lambda state, batch: (state, None, {}), lambda s: s
    )
    return Agent(policy, policy, update, ())
