"""Chaos: kills, stops and stalls of a running program's nodes, drawn from a seed."""

from __future__ import annotations

import collections
import os
import random
import re
import signal
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

import psutil

from boonta.tests.helpers.running import Running

KINDS = ("kill", "stop", "stall")
STALL_S = 4.0  # A stalled node goes on by itself; one that is stopped for good must be replaced.
DEATH = re.compile(r"^warning: (\S+) (.*); it starts again in ", re.MULTILINE)
# Restarts as often as the test kills; the back-off must not outlast it.
ALLOWED = ("--restarts.number", "1000", "--restarts.backoff-s", "0.1", "--restarts.window-s", "5")
# What a process may have more of than when it was first looked at: connections to servers that were just starting again
# then, and what an evaluator's first act is compiled to, 60 MB.
SPARE_HANDLES, SPARE_MB = 30, 120.0


class Event(NamedTuple):
    """What happens to a node.

    Attributes:
      kind: "kill"; "stop", which only a launcher that notices it can mend; or "stall", a stop of a few seconds.
      victim: the node's name.
    """

    kind: str
    victim: str


def schedule(seed: int, nodes: Sequence[str], number: int, kinds: Sequence[str] = KINDS) -> list[Event]:
    """Draws events: all nodes equally often, in random order, and all kinds."""
    drawn = random.Random(seed)
    victims: list[str] = []
    while len(victims) < number:
        victims += drawn.sample(list(nodes), len(nodes))
    several = [kinds[i % len(kinds)] for i in range(number)]
    drawn.shuffle(several)
    return [Event(kind, victim) for kind, victim in zip(several, victims)]


class Chaos:
    """Strikes a running program, and keeps account of it.

    Args:
      run: the program, whose nodes have been launched.

    Attributes:
      struck: by node, the number of events that may have ended a life of it.
    """

    def __init__(self, run: Running):
        self._run = run
        self._handles: dict[int, tuple[int, float]] = {}  # By process, handles and megabytes when first looked at.
        self.struck: collections.Counter[str] = collections.Counter()

    def strike(self, event: Event) -> None:
        """Lets an event happen; returns at once, but for a stall, after which the node goes on."""
        pid = self._run.pids[event.victim]
        self.struck[event.victim] += 1
        try:
            if os.getsid(pid) != self._run.process.pid:
                return  # It has died, and its number is another's now.
            os.kill(pid, signal.SIGKILL if event.kind == "kill" else signal.SIGSTOP)
            if event.kind == "stall":
                time.sleep(STALL_S)
                os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass  # The launcher was quicker to end it, or it is just starting again.

    def strike_and_wait(self, event: Event) -> None:
        """Lets an event happen, and waits until all nodes work, the victim in a new life unless it was a stall."""
        before = self._run.pids[event.victim]
        self.strike(event)
        if event.kind != "stall":
            self._run.wait_until(lambda: self._run.pids[event.victim] != before, f"{event} is mended")
        self._run.wait_until_it_works()
        self.require_no_others_died()

    def require_no_others_died(self) -> None:
        """Fails if a node died that nothing was done to, or more often than something was."""
        deaths = collections.Counter(name for name, _ in DEATH.findall(self._run.printed))
        assert not deaths - self.struck, self._run.printed

    def require_no_growth(self, nodes: Collection[str] = ()) -> None:
        """Fails if the launcher has more handles or memory than at the first call, or a node in the same life of it.

        Args:
          nodes: those that work by now.
        """
        processes = {"launcher": self._run.process.pid, **{name: self._run.pids[name] for name in nodes}}
        for name, pid in processes.items():
            process = psutil.Process(pid)
            now = process.num_fds(), process.memory_info().rss / 1e6
            handles, megabytes = self._handles.setdefault(pid, now)
            grown = f"{name} had {handles} handles and {megabytes:.0f} MB, and has {now}"
            assert now[0] <= handles + SPARE_HANDLES and now[1] <= megabytes + SPARE_MB, grown
