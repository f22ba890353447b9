"""The monitor: receives every heartbeat, adds up counters, writes metrics and the shares of waits, ends the program."""

from __future__ import annotations

import math
import pathlib
import threading
import time
from collections.abc import Sequence
from typing import Any

from boonta.nodes.periodic import Periodic
from boonta.nodes.sinks.base import TENSORBOARD
from boonta.nodes.snapshots import counters
from boonta.nodes.snapshots.newest import Newest
from boonta.nodes.watch.evaluators import Evaluators
from boonta.nodes.watch.ledger import Ledger
from boonta.nodes.watch.program_end import ProgramEnd
from boonta.nodes.watch.roster import Peer, Roster
from boonta.nodes.watch.row_log import RowLog
from boonta.nodes.watch.status import write_status
from boonta.nodes.watch.stopping import COLLAPSE, StopRule

START_S = 180.0  # Time from the launch to the first heartbeat; imports take a minute on a busy machine.
SAVE_EVERY_S = 1.0  # What a node counts between a save and its own death is lost if the monitor dies, too.


class Monitor(Periodic):
    """Keeps the program's counters and ends it. Nodes call `beat` every second; the launcher calls `status`.

    Args:
      name: the name of this node.
      folder: the run's folder, for metrics and counters.
      stop: the rule by which the program has done its work.
      log_every_s: seconds between rows of metrics; the first ones are closer, see `nodes.watch.row_log`.
      silent_s: seconds without a heartbeat after which a node is named as silent.
      lost_s: seconds without a heartbeat after which a node counts as lost and the program fails.
      start_s: seconds from the launch within which an expected node sends its first.
      supervised: whether the launcher decides what follows when a node fails, hangs or is lost; else the program fails.
      log: the sinks that `--log` names; the monitor writes TensorBoard's alone, and `sinks.follow` sends to the others.
    """

    role = "monitor"
    methods: tuple[str, ...] = ("beat", "resume", "report_end", "request_snapshot")  # By nodes.
    methods += ("expect", "admit", "status", "stop_program", "fail_program")  # By launchers, and some by nodes, too.

    def __init__(
        self,
        name: str,
        folder: str,
        stop: StopRule,
        log_every_s: float = 10.0,
        silent_s: float = 15.0,
        lost_s: float = 25.0,
        start_s: float = START_S,
        supervised: bool = False,
        log: Sequence[str] = (TENSORBOARD,),
    ):
        super().__init__(name, every_s=0.5)
        self._folder = pathlib.Path(folder)
        self._rule = stop
        self._lost_s = lost_s
        self._start_s = start_s
        self._supervised = supervised
        self._state = threading.RLock()
        self._writing = threading.Lock()  # Keeps the order of counters; taken before the state, never while it is held.
        self._roster = Roster(silent_s)
        self._end = ProgramEnd(self._roster)
        self._evaluators = Evaluators(stop.patience)
        self._absent: set[str] = set()  # Those that were away in the last round; who asks at each heartbeat can't look.
        self._ledger = Ledger(self._folder)
        self._saved_at = time.monotonic()
        self._snapshot_request = (0, 0)  # How many there were, and the last one's number.
        self._log = RowLog(self._folder, log, log_every_s, self._look, self.warn)
        self._newest = Newest(self._folder)

    def start(self) -> None:
        self._ledger.counters.began = self.launched_at  # The imports of its process count, too.
        self._log.begin()
        self.on_close(self._end_log)

    # Nodes and the launcher call these.

    def expect(self, names: Sequence[str], dispensable: Sequence[str] = (), returning: Sequence[str] = ()) -> None:
        """Fails the program if one of these nodes sends no heartbeat in time: it hangs before its first one.

        Args:
          names: all nodes of the program.
          dispensable: those of them without which it goes on, whether they never come, fall silent or leave.
          returning: those that a platform starts again when they leave; it goes on if they come back within `start_s`.
        """
        with self._state:
            self._roster.expect(names, dispensable, returning)

    def admit(self, group: str, declared: int, number: int) -> int:
        """Keeps numbers for nodes that are to join a group, see `Counters.admit`."""
        with self._state:
            first = self._ledger.admit(group, declared, number, self._roster.peers)
        self._save_counters()  # A monitor that comes back must not give them again.
        return first

    def beat(self, report: dict[str, Any]) -> dict[str, Any]:
        """Receives a node's report; returns the program's counters, whether it ends, and why this node must stop."""
        new = False
        with self._state:
            refused = self._ledger.refusal(report, self.build)
            alone = refused if report["joined"] else ""  # Else the program fails.
            self._absent.discard(report["name"])
            late = self._ledger.counters.is_over(report["name"], report["life"]) or self._roster.is_late(report)
            if alone:
                self._roster.peers.setdefault(report["name"], Peer(report, time.monotonic(), True, alone))
            elif not late:
                new, gone, failure = self._meet(report, refused)
                self._roster.peers[report["name"]] = Peer(report, time.monotonic(), gone, failure)
                self._evaluators.add(report)
                if self._log.add(report):
                    self._end_if_done()  # The next evaluation may come before the next round.
            reply = {
                "stop": alone or (self._end.reason if self._end.allows(report["end_order"]) else ""),
                "ending": bool(self._end.reason),
                "failure": alone or self._end.failure,
                "counts": self.totals(),
                "evaluation": self._evaluation(),
                "snapshot_request": self._snapshot_request,
                "past_lives": self._ledger.counters.past_lives(report["name"]),
                "past_starts": self._ledger.counters.starts,
            }
        if new:
            self._save_counters()  # A monitor that comes back must know each node that was answered.
        return reply

    def _meet(self, report: dict[str, Any], refused: str) -> tuple[bool, bool, str]:
        """Registers a node that is new or restarted, and fails the program if it must not be in it.

        Args:
          report: the node's heartbeat.
          refused: why it must not be in the program; empty if it may.

        Returns:
          Whether it is new; whether it has already reported its end, which may overtake `beat`; and why it ended.
        """
        name, life = report["name"], report["life"]
        before = self._roster.peers.get(name)
        new = before is None or before.report["life"] != life
        if new and report["acknowledged"] and not self._ledger.counters.knows(name, life):
            if self._ledger.go_on_with(name, life):
                self._log.skip()
            else:
                self.fail_program(f"the monitor came back without its counters: {name} has reported to an earlier one")
        self._ledger.counters.record(name, life, report["counts"])
        if refused:
            self.fail_program(refused)
        return (True, False, "") if before is None or new else (False, before.gone, before.failure)

    def resume(self, name: str, counts: dict[str, float]) -> None:
        """Goes on counting from the counters of a checkpoint that a node has restored; the node has reported before."""
        with self._state:
            self._ledger.counters.resume(name, counts)
            if counts.get("updates"):
                self._log.forget_start()

    def request_snapshot(self, number: int) -> None:
        """Asks nodes that have a part of the program's snapshots to save it under this number; repeats are ignored."""
        with self._state:
            if not self._snapshot_request[0] or number != self._snapshot_request[1]:
                self._snapshot_request = (self._snapshot_request[0] + 1, number)

    def report_end(self, name: str, failure: str, life: str = "") -> None:
        """Registers that a node's life, or its present one, has ended; of one that is over by now it changes nothing.

        `failure` contains what the node was doing and the cause, or is empty.
        """
        with self._state:
            if self._ledger.counters.is_over(name, life):
                return
            if self._roster.end(name, failure) or (self._supervised and not self._end.reason):
                return  # The program goes on, or the launcher may start it again.
            if failure or not self._end.reason:
                self.fail_program(failure or f"{name} ended before the program did")

    def stop_program(self, reason: str) -> None:
        """Asks every node to end."""
        with self._state:
            self._end.ask(reason)

    def finish_program(self, reached: str) -> None:
        """Asks every node to end, since the program's stop rule has been reached."""
        if reached == COLLAPSE and self._log.health.holding:
            reached = f"{COLLAPSE}: {'. '.join(self._log.health.holding.values())}"
        with self._state:
            self._end.done = self._end.done or not self._end.reason
            self.stop_program(reached)

    def fail_program(self, failure: str) -> None:
        """Asks every node to end, since the program has failed; the first failure is kept."""
        with self._state:
            self._end.failure = self._end.failure or failure
            self.stop_program(self._end.failure)

    def status(self, to_launcher: bool = True) -> dict[str, Any]:
        """Everything that a view shows: totals, rates, metrics, nodes, and how the program ends.

        "snapshot" is the newest one, "away" the seconds of each node that it does without, "saving" who saves.
        "reason" says why it ends, "done" whether by its stop rule, "failure" why it failed; "health" has the warnings.
        """
        with self._state:
            if to_launcher:
                self._end.show()
            return {
                "totals": self.totals(),
                # While a program ends, its totals go beyond the newest row's, whose returns may be old.
                "row": self._log.last() if self._end.reason and self._log.begun else dict(self._log.row),
                "snapshot": self._newest.snapshot,
                "nodes": self._roster.status(),
                "away": self._roster.away(self._end.asked_at),
                "saving": self._roster.saving(),
                "reason": self._end.reason,
                "done": self._end.done,
                "failure": self._end.failure,
                "warnings": self.warnings,
                "health": self._log.health.holding,
            }

    # Internal methods, and `totals`, which subclasses extend.

    def totals(self) -> dict[str, float]:
        """The program's counters, its age in seconds, and the last evaluation's mean return."""
        with self._state:
            totals = self._ledger.counters.totals()
            evaluation = self._evaluation()
            if "eval_return" in evaluation:
                totals["eval_return"] = evaluation["eval_return"]
            return totals

    def _look(self) -> tuple[dict[str, float], list[dict[str, Any]], set[str]]:
        """The totals, the nodes' reports and those that are away, for a row; as it closes, heartbeats still come."""
        with self._state:
            return self.totals(), self._roster.reports, self._absent

    def _evaluation(self) -> dict[str, float]:
        """The last evaluation, see `Evaluators.last`."""
        return self._evaluators.last(self._absent)

    def round(self) -> None:
        self._newest.look()
        with self._state:
            self._end_if_done()
            self._fail_if_hung()
            self._absent = set(self._roster.away(self._end.asked_at))
            saves = self._roster.peers and time.monotonic() - self._saved_at >= SAVE_EVERY_S
            if self._roster.peers:
                self._log.make_if_due()
            over = self._end.over
        if saves or self._log.waits:  # Or counters would go back in the rows of a monitor that comes back.
            self._save_counters()
        self._log.flush()
        if over:
            super().stop()

    def _end_if_done(self) -> None:
        impatient = self._evaluators.ran_out(self._absent)
        if reached := self._rule.reached(self.totals(), self._log.health.collapsed) or impatient:
            self.finish_program(reached)

    def _save_counters(self) -> None:
        """Writes counters and status. The caller doesn't hold the state, so that no heartbeat waits meanwhile."""
        with self._writing:
            with self._state:
                self._saved_at = time.monotonic()
                content, status = self._ledger.content(bool(self._roster.peers)), self.status(to_launcher=False)
            try:
                counters.save(self._folder, content)
            except OSError as error:  # The run can go on without, and a full disk may have room again.
                self.warn(f"the counters can't be saved: {error}")
            write_status(self._folder, status)

    def _fail_if_hung(self) -> None:
        """Fails the program if a node is lost or stuck, unless the launcher decides what follows."""
        self._roster.grow_silent()
        if self._supervised:
            return
        for failure in self._roster.fallen(self._lost_s, math.inf if self._end.reason else self._start_s):
            self.fail_program(failure)
        age, unknown = time.monotonic() - self.launched_at, self._roster.unknown()
        if unknown and age > self._start_s and not self._end.reason:
            self.fail_program(f"{', '.join(unknown)} sent no heartbeat since the launch, {age:.0f} s ago")

    def _end_log(self) -> None:
        self._log.close()
        with self._writing:
            write_status(self._folder, self.status(to_launcher=False))
        self._save_counters()  # A monitor that comes back goes on from the last row.

    def stop(self) -> None:
        """Asks the nodes to stop, and stays until they have reported their end; if it comes back, it only leaves."""
        if self.leaving:
            super().stop()
        else:
            self.stop_program("the monitor was asked to stop")
