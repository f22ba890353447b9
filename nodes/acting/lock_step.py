"""Which params act when, so that a run with threads is repeatable."""

from __future__ import annotations

from typing import NamedTuple


class LockStep(NamedTuple):
    """Fixes which version of the params acts when, so that a run is repeatable.

    The params that act are `lag` updates older than those of the update that learns from their data.

    Attributes:
      lag: number of updates, at least 0; with 0 each update waits for data of the params before it.
      groups: number of groups of environments on this host, whose sequences the learner takes in turn.
      group_size: environments per group.
      batch_size: sequences per update; with several hosts, this host's part.
    """

    lag: int
    groups: int
    group_size: int
    batch_size: int

    def updates(self, group: int, block: int) -> int:
        """Returns the number of updates behind the params that act in a group's sequences number `block`, from 0.

        It is the number of updates before the first one that learns from these sequences, less the lag.
        """
        before = (block * self.groups + group % self.groups) * self.group_size // self.batch_size
        return max(0, before - self.lag)
