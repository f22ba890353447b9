"""How long a program that was asked to end waits for its nodes: decided without processes or clocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boonta.nodes.watch.program_end import SAVING_S

SPARED = ("compiling", "stopping the server")  # Activities in which nothing is lost of a node.
LONGEST_LOOK_S = 3.0  # Most that the time between two looks counts: in a longer one the launcher was stopped itself.


class Grace:
    """The time that nodes have to end. The time in which some of them save comes on top, up to `SAVING_S`, and so
    do pauses of the machine.

    Args:
      limit_s: seconds from the request to end, without saves.

    Attributes:
      limit_s: as given.
      saving_s: seconds since the request in which nodes have saved.
    """

    def __init__(self, limit_s: float):
        self.saving_s = self._paused_s = 0.0
        self.limit_s = limit_s
        self._looked_at = float("-inf")

    @property
    def whole_s(self) -> float:
        """All of the time, with that of saves so far."""
        return self.limit_s + self.saving_s

    def is_over(self, asked: float, now: float, saving: bool) -> bool:
        """Whether the time is over.

        Args:
          asked: when nodes were asked to end, by any clock that never goes back.
          now: the time.
          saving: whether nodes save now, and have since the last call.
        """
        passed = now - max(asked, self._looked_at)
        if saving:
            self.saving_s = min(self.saving_s + passed, SAVING_S)
        else:
            self._paused_s += max(0.0, passed - LONGEST_LOOK_S)
        self._looked_at = now
        return now - asked - self._paused_s > self.whole_s


def cut_short(late: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """The nodes that are killed at their work, each with its activity: those that lose something, and the others.

    In neither are nodes that compile or have saved, and those that haven't come as far as their work.

    Args:
      late: the monitor's status of the nodes that haven't ended, by name.
    """
    by_loss: dict[bool, list[str]] = {True: [], False: []}
    for name, node in late.items():
        if node["started"] and not node["gone"] and node["activity"] not in SPARED:
            by_loss[node["saves"]].append(f"{name} ({node['activity']})")
    return ", ".join(by_loss[True]), ", ".join(by_loss[False])
