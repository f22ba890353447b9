"""A world that is the past: stored trajectories are played back, whatever is done in them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tree

from boonta.agents.base import Nest, Steps
from boonta.envs.base import FIRST, LAST, BatchedEnv, EnvSpec, Episode, EpisodeTracker, TimeStep, check_action

Source = Callable[[], Steps]  # the next trajectory, leaves [T, ...], T at least 1 and another one each time


class Replayed(BatchedEnv):
    """Slots that each play a stored trajectory back; an action changes nothing, and `taken` is the recorded one.

    After MooZi's mock environment, sections 5.3.1 and 5.3.2. Trajectories may differ in length: a slot whose own is
    over plays the source's next. It knows nothing of where the source has them from, and waits as long as that does.

    Where trajectories are whole episodes a slot is the endless stream that `BatchedEnv` promises. A trajectory may also
    be a fragment that starts or ends in the middle of an episode. Then a policy that remembers the last L-1 frames sees
    those of another episode in the fragment's first L-1 steps, and what it finds there is wrong. Sequences carry L-1
    steps of context for this very reason, which learning uses for their frames only, see `agents.sequences`: what was
    found in them is never looked at. A policy that remembers more than its frames can't be played fragments.

    Args:
      spec: of the environment that the trajectories are from.
      num_envs: B.
      source: gives trajectories; their observations have the spec's leaves, in its order.
    """

    def __init__(self, spec: EnvSpec, num_envs: int, source: Source):
        self.spec = spec
        self.num_envs = num_envs
        self._source = source
        self._steps: list[Steps] = [source() for _ in range(num_envs)]
        self._row = np.zeros(num_envs, np.int64)
        self._shown = False  # anything of these trajectories
        self._whole = np.zeros(num_envs, bool)  # the running episode was played from its start
        self._tracker = EpisodeTracker(num_envs)

    def reset(self) -> TimeStep:
        """Starts a trajectory in every slot; returns the first step of each, which is FIRST in whole episodes."""
        if self._shown:
            for slot in range(self.num_envs):
                self._refill(slot)
        self._shown = True
        return self._show()

    def step(self, action: np.ndarray) -> TimeStep:
        check_action(action, self.spec.actions, self.num_envs)
        self._row += 1
        for slot, steps in enumerate(self._steps):
            if self._row[slot] == len(steps.step_type):
                self._refill(slot)
        return self._show()

    def taken(self, action: np.ndarray) -> np.ndarray:
        """The recorded action [B, ...] of the step shown last."""
        return self._batch(lambda steps: steps.action)

    def episodes(self) -> list[Episode]:
        """Takes the episodes finished since the last call that were played from start to end."""
        return self._tracker.take()

    def _refill(self, slot: int) -> None:
        self._steps[slot] = self._source()
        self._row[slot] = 0
        self._whole[slot] = False

    def _batch(self, part: Callable[[Steps], Nest]) -> Nest:
        """A part of the steps that are due, leaves [B, ...]."""
        rows = [tree.map_structure(lambda leaf, t=t: leaf[t], part(steps)) for steps, t in zip(self._steps, self._row)]
        return tree.map_structure(lambda *leaves: np.stack(leaves), *rows)

    def _show(self) -> TimeStep:
        step_type, reward, discount, observation = self._batch(
            lambda steps: (steps.step_type, steps.reward, steps.discount, steps.observation)
        )
        first, last = step_type == FIRST, step_type == LAST
        self._whole |= first
        by_player_1 = self.spec.num_players == 2 and observation.player == 0  # player 0 loses what player 1 wins
        self._tracker.update(np.where(by_player_1, -reward, reward), first, last & self._whole)
        return TimeStep(step_type, reward, discount, observation)
