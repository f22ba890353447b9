"""The program's counters in its folder: they outlive the monitor, which goes on from them if it comes back."""

from __future__ import annotations

import pathlib
from collections.abc import Collection, Mapping
from typing import Any

from boonta.nodes.snapshots import counters


class Ledger:
    """Keeps the counters of a program, and those of an earlier monitor until it is known whether it goes on from them.

    Args:
      folder: the run's folder.

    Attributes:
      counters: the program's counters.
    """

    def __init__(self, folder: pathlib.Path):
        self.counters = counters.Counters()
        self._before = counters.load(folder)  # The counters that an earlier monitor saved.
        if self._before is not None:
            self.counters.admitted = self._before.admitted  # Both keep them: nodes have got them anyway.
            self.counters.starts = self._before.starts + 1

    def admit(self, group: str, declared: int, number: int, peers: Collection[str]) -> int:
        """Keeps numbers for nodes that are to join a group, see `Counters.admit`; `peers` have reported here."""
        known = {*peers, *self.counters.lives, *(self._before or self.counters).lives}
        return self.counters.admit(group, declared, number, known)

    def refusal(self, report: Mapping[str, Any], build: str) -> str:
        """Why a node may not be in this program; empty if it may.

        Args:
          report: the node's heartbeat.
          build: what the monitor was built from.
        """
        name, life = report["name"], report["life"]
        if report["build"] != build:
            return f"{name} is {report['build']}, but the monitor is {build}: start all alike"
        # The program may have resumed from a checkpoint, which has this node's steps already.
        known = any(each.knows(name, life) for each in (self.counters, self._before) if each is not None)
        if report["joined"] and report["acknowledged"] and not known:
            return f"{name} has counted for an earlier monitor, whose counters are lost: have it join again"
        return ""

    def go_on_with(self, name: str, life: str) -> bool:
        """Goes on from the earlier monitor's counters if they have this life of a node; returns whether they do."""
        if self._before is None or not self._before.knows(name, life):
            return False
        self.counters, self._before = self.counters.continued_from(self._before), None
        return True

    def content(self, heard: bool) -> dict[str, Any]:
        """What is to be saved now, by `snapshots.counters.save`.

        Args:
          heard: whether a node has reported. Before that, the earlier monitor's counters may still be needed.
        """
        return (self.counters if heard or self._before is None else self._before).content()
