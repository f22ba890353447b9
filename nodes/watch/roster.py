"""The monitor's view of the nodes: their last reports, and which are silent or stuck or have ended."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Sequence
from typing import Any

UNKNOWN_S = 6.0  # Time from the stop request until a node that sent no heartbeat counts as absent.
# A node that is still starting may be silent for so long: while a library loads, no other code of the process runs.
STARTING_SILENT_S = 60.0
LONGEST_ROUND_S = 2.0  # Limit of what a round adds to silence: in a longer one the monitor itself was stopped.


@dataclasses.dataclass
class Peer:
    """The monitor's view of one node.

    Attributes:
      report: its last report.
      reported_at: the time of that report, by the monotonic clock.
      gone: whether it has ended, or is lost.
      failure: the reason, if it has failed.
      silent_s: seconds since the last report, as far as the monitor was awake.
    """

    report: dict[str, Any]
    reported_at: float
    gone: bool = False
    failure: str = ""
    silent_s: float = 0.0

    @property
    def end_order(self) -> int:
        return self.report["end_order"]


class Roster:
    """The nodes that have reported, and those that are expected to.

    Args:
      silent_s: seconds without a heartbeat after which a node that works counts as silent.

    Attributes:
      peers: by name, the nodes that have reported.
      saving_s: seconds in which at least one of them saved, as far as the monitor was awake.
    """

    def __init__(self, silent_s: float):
        self.peers: dict[str, Peer] = {}
        self.saving_s = self._awake_s = 0.0
        self._silent_s = silent_s
        self._expected: Sequence[str] = ()
        self._dispensable: Collection[str] = ()
        self._returning: Collection[str] = ()
        self._began = self._looked_at = time.monotonic()

    @property
    def reports(self) -> list[dict[str, Any]]:
        return [peer.report for peer in self.peers.values()]

    def expect(self, names: Sequence[str], dispensable: Collection[str], returning: Collection[str]) -> None:
        """Names all nodes of the program, those without which it goes on, and those that come back when they leave."""
        self._expected, self._dispensable = names, dict.fromkeys(dispensable)
        self._returning = set(returning) - set(dispensable)  # Those may be away for longer.

    def is_dispensable(self, name: str) -> bool:
        """Whether the program goes on without a node: it may come late, be away, and leave."""
        return name in self._dispensable or self.has_joined(name)

    def has_joined(self, name: str) -> bool:
        """Whether a node has joined the running program."""
        return name in self.peers and self.peers[name].report["joined"]

    def is_late(self, report: dict[str, Any]) -> bool:
        """Whether this report of a node's life has come before, or a later one has overtaken it: calls may be slow."""
        peer = self.peers.get(report["name"])
        return peer is not None and peer.report["life"] == report["life"] and peer.report["number"] >= report["number"]

    def end(self, name: str, failure: str) -> bool:
        """Records that a node has ended, and the reason if it has failed; returns whether the program goes on."""
        if name in self.peers:
            self.peers[name].gone, self.peers[name].failure = True, failure
        leaves = not failure and (self.is_dispensable(name) or name in self._returning)
        return leaves or self.has_joined(name)

    def grow_silent(self) -> None:
        """Adds the time since the last call to the silence of each node, and to the time of saves."""
        now = time.monotonic()
        elapsed, self._looked_at = min(now - self._looked_at, LONGEST_ROUND_S), now
        for peer in self.peers.values():
            peer.silent_s += elapsed
        self._awake_s += elapsed
        if self.saving():
            self.saving_s += elapsed

    @property
    def awake_s(self) -> float:
        """Seconds since the beginning, as far as the monitor was awake."""
        return self._awake_s + min(time.monotonic() - self._looked_at, LONGEST_ROUND_S)

    def hung(self, name: str) -> str:
        """How a node hangs, as a predicate; empty if it doesn't, or has ended."""
        peer = self.peers[name]
        started = peer.report["started"]
        if peer.gone:
            return ""
        if peer.silent_s > (self._silent_s if started else max(self._silent_s, STARTING_SILENT_S)):
            return f"has sent no heartbeat for {peer.silent_s:.0f} s; it was {peer.report['activity']}"
        return peer.report["stuck"]

    def fallen(self, lost_s: float, return_s: float) -> list[str]:
        """What has become of nodes that are lost or stuck, or don't come back; the program can't go on without them.

        Args:
          lost_s: seconds of silence after which a node is lost.
          return_s: the same where it has left, and is to come back.
        """
        found = []
        for name, peer in self.peers.items():
            hung = "" if self.has_joined(name) else self.hung(name)
            lost = peer.silent_s > lost_s and not self.is_dispensable(name)
            if hung and (lost or hung == peer.report["stuck"]):
                peer.gone, peer.failure = True, peer.failure or hung
                found.append(f"{name} {hung}")
            elif self._has_left(name, peer) and peer.silent_s > return_s:
                found.append(f"{name} has left, and has not come back for {peer.silent_s:.0f} s")
        return found

    def saving(self) -> list[str]:
        """The nodes that save, and send heartbeats."""
        return [
            name
            for name, peer in self.peers.items()
            if peer.report["saving"] and not peer.gone and peer.silent_s <= self._silent_s
        ]

    def unknown(self) -> list[str]:
        """The nodes that have never reported, though the program needs them."""
        return [name for name in self._expected if name not in self.peers and name not in self._dispensable]

    def away(self, before: float | None) -> dict[str, float]:
        """The nodes that the program does without, by name: the seconds since their last report, or the launch.

        Args:
          before: leaves out who has reported after this time: the nodes that leave because the program ends.
        """
        last = {name: self._began for name in self._dispensable if name not in self.peers} | {
            name: peer.reported_at
            for name, peer in self.peers.items()
            if self._has_left(name, peer) or (self.is_dispensable(name) and self._is_absent(name, peer))
        }
        now = time.monotonic()
        return {name: now - at for name, at in last.items() if before is None or at <= before}

    def all_gone(self, ending_s: float) -> bool:
        """Whether no node is left, `ending_s` seconds after they were asked to end."""
        return not self._awaited(ending_s) and all(self._is_absent(*each) for each in self.peers.items())

    def only_servers_left(self, least: int, ending_s: float) -> bool:
        """Whether no node is left whose `end_order` is below `least`, `ending_s` seconds after they were asked to."""
        left = [peer for name, peer in self.peers.items() if not self._is_absent(name, peer)]
        return not self._awaited(ending_s) and all(peer.end_order >= least for peer in left)

    def status(self) -> dict[str, dict[str, Any]]:
        """The state of each node by name, for a display and a launcher."""
        now = time.monotonic()
        return {
            name: {
                "activity": peer.report["activity"],
                "activity_s": peer.report["activity_s"] + now - peer.reported_at,
                "report_age_s": now - peer.reported_at,
                "rss_mb": peer.report["rss_mb"],
                "process": peer.report["process"],
                "started": peer.report["started"],
                "saves": peer.report["saves"],
                "gone": peer.gone,
                "failure": peer.failure,
                "hung": self.hung(name),
                "warnings": peer.report["warnings"],
            }
            for name, peer in self.peers.items()
        }

    def _has_left(self, name: str, peer: Peer) -> bool:
        """Whether a node has left, and is to come back."""
        return peer.gone and not peer.failure and name in self._returning

    def _is_absent(self, name: str, peer: Peer) -> bool:
        """Whether a node has ended, or is silent and nobody waits for it."""
        return peer.gone or (self.is_dispensable(name) and peer.silent_s > self._silent_s)

    def _awaited(self, ending_s: float) -> bool:
        """Whether a node may still send its first heartbeat: nodes outlive a monitor that was killed."""
        return bool(self.unknown()) and ending_s < UNKNOWN_S
