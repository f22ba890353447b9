"""An environment that replays stored trajectories, whatever actions it is given."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tree

from boonta.agents.base import Nest, Steps
from boonta.envs.actions import check_action
from boonta.envs.base import FIRST, LAST, BatchedEnv, EnvSpec, Episode, EpisodeTracker, TimeStep, reward_of_player_0

Source = Callable[[], Steps]  # Returns another trajectory at each call, leaves [T, ...] with T >= 1.


class Replayed(BatchedEnv):
    """Slots that each replay a stored trajectory; actions have no effect, and `executed_action` is the recorded one.

    The idea is that of MooZi's mock environment, sections 5.3.1 and 5.3.2. Trajectories may differ in length: a slot
    whose trajectory is over replays the next one of the source, and waits as long as the source takes to return it.

    Where trajectories are whole episodes, a slot is the endless stream that `BatchedEnv` promises. A trajectory may
    also be a fragment that starts or ends in the middle of an episode. A policy that stacks the last L frames then sees
    frames of another episode in the first L-1 steps of the fragment, so its outputs there are wrong. This is harmless,
    because the first L-1 steps of a sequence are context, of which learning only reads the frames, see
    `agents.sequences`. A policy that remembers more than its frames can't be used with fragments.

    Args:
      spec: the spec of the environment that the trajectories were recorded in.
      num_envs: B.
      source: returns trajectories; their observations have the spec's leaves, in its order.
    """

    def __init__(self, spec: EnvSpec, num_envs: int, source: Source):
        self.spec = spec
        self.num_envs = num_envs
        self._source = source
        self._steps: list[Steps] = []
        self._row = np.zeros(num_envs, np.int64)
        self._whole = np.zeros(num_envs, bool)  # Whether the current episode was replayed from its start, [B].
        self._tracker = EpisodeTracker(num_envs)

    def reset(self) -> TimeStep:
        """Starts a trajectory in every slot; returns the first step of each, which is FIRST in whole episodes."""
        self._steps = [self._source() for _ in range(self.num_envs)]
        self._row[:] = 0
        self._whole[:] = False
        return self._show()

    def step(self, action: np.ndarray) -> TimeStep:
        check_action(action, self.spec.actions, self.num_envs)
        self._row += 1
        for slot, steps in enumerate(self._steps):
            if self._row[slot] == len(steps.step_type):
                self._refill(slot)
        return self._show()

    def executed_action(self, action: np.ndarray) -> np.ndarray:
        """Returns the recorded action [B, ...] of the last step."""
        return self._batch(lambda steps: steps.action)

    def episodes(self) -> list[Episode]:
        """Returns the episodes finished since the last call that were replayed from start to end."""
        return self._tracker.take()

    def _refill(self, slot: int) -> None:
        self._steps[slot] = self._source()
        self._row[slot] = 0
        self._whole[slot] = False

    def _batch(self, part: Callable[[Steps], Nest]) -> Nest:
        """Stacks a part of every slot's current step, leaves [B, ...]."""
        rows = [tree.map_structure(lambda leaf, t=t: leaf[t], part(steps)) for steps, t in zip(self._steps, self._row)]
        return tree.map_structure(lambda *leaves: np.stack(leaves), *rows)

    def _show(self) -> TimeStep:
        timestep: TimeStep = self._batch(lambda steps: steps.timestep)
        first, last = timestep.step_type == FIRST, timestep.step_type == LAST
        self._whole |= first
        self._tracker.update(reward_of_player_0(timestep, self.spec.num_players), first, last & self._whole)
        return timestep
