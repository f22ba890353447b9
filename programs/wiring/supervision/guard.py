"""Starts a program of one process again, from its newest snapshot, when that process dies; a small parent does so."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from types import FrameType
from typing import Any

from boonta.nodes.watch.stopping import COLLAPSED_CODE
from boonta.programs.wiring.machine import accelerators, memory
from boonta.programs.wiring.supervision import dependent, interrupts
from boonta.programs.wiring.supervision.restarts import History, Restarts, how_ended

SILENT_S = 20.0  # Time without a report after which the process counts as hung, once it has worked.
START_S = 180.0  # The same before it has worked, and while it ends.
POLL_S = 0.25

ASKED = {code for number in interrupts.ENDING for code in (128 + number, -number)}  # Codes of a child that was to end.

GUARD = "BOONTA_GUARD"  # The environment variable that gives a child its guard's pipe and process id.

_pipe: int | None = None  # The pipe by which a guarded process reports to its guard.


def guard(name: str, policy: Restarts) -> None:
    """Returns in a child process, which is to run the program; the parent stays here, and exits as the last child does.

    The child is a fork, so that the program starts no later, and takes no more memory. Where JAX has started its
    devices, as a program file whose default environment is a JAX one does, a fork would have the locks of JAX's threads
    but not the threads that release them; there the process's own command is run anew.

    Args:
      name: the program's name.
      policy: how often it is started again.
    """
    inherited = os.environ.pop(GUARD, None)
    if inherited is not None:
        writer, parent_pid = map(int, inherited.split())
        _become_guarded(writer, parent_pid)
        return
    parent = _Guard(name, policy)
    while True:
        reader, writer = os.pipe()
        if parent.start(writer) == 0:
            os.close(reader)
            return
        os.close(writer)
        with open(reader, "rb", buffering=0) as reports:
            code = parent.watch(reports)
        if code is not None:
            sys.exit(code)


def report(worked: bool, ending: bool = False, failure: str = "") -> None:
    """Reports to the guard, if there is one, that the program lives.

    Args:
      worked: whether all nodes have begun to work.
      ending: whether this is the last report; libraries may take long at a process's exit.
      failure: why the program has failed, if it has.
    """
    if _pipe is not None:
        line = json.dumps({"worked": worked, "ending": ending, "failure": failure}) + "\n"
        with contextlib.suppress(OSError):  # The guard is gone, or is stopped and reads nothing.
            os.write(_pipe, line.encode())


def _become_guarded(writer: int, parent_pid: int) -> None:
    global _pipe
    _pipe = writer
    os.set_blocking(writer, False)
    os.set_inheritable(writer, False)
    signal.signal(signal.SIGINT, interrupts.interrupted)
    interrupts.handle(signal.SIG_DFL, interrupts.TERMINATING)
    dependent.end_with(parent_pid)
    memory.offer_first()


class _Guard:
    """The parent: its present child, and the history of its earlier ones."""

    def __init__(self, name: str, policy: Restarts):
        self._name = name
        self._history = History(name, policy, time.monotonic())
        self.own_pid = os.getpid()
        self._child = 0
        self._signal = 0
        interrupts.handle(self._forward)

    def start(self, writer: int) -> int:
        """Starts a child, which is to report to this pipe; returns its process id, and 0 in a forked child itself."""
        sys.stdout.flush()
        sys.stderr.flush()
        with interrupts.held(interrupts.ENDING):  # A fork has its parent's handlers at first.
            if accelerators.taken():
                os.set_inheritable(writer, True)
                environment = {**os.environ, GUARD: f"{writer} {os.getpid()}"}
                command = [sys.executable, *sys.orig_argv[1:]]
                pid = os.posix_spawn(sys.executable, command, environment, setsigmask=())
            else:
                pid = os.fork()
                if pid == 0:
                    _become_guarded(writer, self.own_pid)
            self._child = pid
        if pid and self._signal:
            os.kill(pid, signal.SIGTERM)  # The signal came before there was a child to forward it to.
        return pid

    def watch(self, reports: Any) -> int | None:
        """Waits for the child's end and, if it is to be started again, until then; otherwise returns the exit code."""
        failure, hung, code = self._follow(reports)
        if self._signal or code in (0, 2, COLLAPSED_CODE, *ASKED):  # Restarting is of no use.
            return code if code >= 0 else 128 + (self._signal or -code)
        cause = hung or (f"failed: {failure}" if failure else how_ended(code))
        decision = self._history.die(time.monotonic(), cause, raised=code > 0 and not hung)
        if decision.failure:
            if len(self._history.deaths) > 1:  # The child has printed its own failure.
                print(f"error: {decision.failure}", file=sys.stderr, flush=True)
            return max(code, 1)
        print(f"warning: {self._name} {cause}; it starts again in {decision.delay_s:g} s", flush=True)
        assert self._history.due is not None
        while time.monotonic() < self._history.due:
            time.sleep(POLL_S)
            if self._signal:
                return 128 + self._signal
        self._history.begin(time.monotonic())
        return None

    def _follow(self, reports: Any) -> tuple[str, str, int]:
        """Reads what the child reports until it has ended; returns why it failed, how it hung, and its exit code."""
        failure = hung = ""
        rest, silent_s, ending, works = b"", 0.0, False, False
        while True:
            asked_at = time.monotonic()
            if select.select([reports], [], [], POLL_S)[0]:
                news = reports.read(1 << 16)
                if not news:
                    break
                *lines, rest = (rest + news).split(b"\n")
                for line in map(json.loads, lines):
                    works |= line["worked"]
                    self._history.worked |= works
                    failure, ending, silent_s = line["failure"] or failure, line["ending"], 0.0
            else:  # The parent may have been stopped for the rest of a longer time.
                silent_s += min(time.monotonic() - asked_at, 2 * POLL_S)
            if not hung and silent_s > (SILENT_S if works and not ending else START_S):  # Each life has its start.
                hung = f"has shown no sign of life for {silent_s:.0f} s"
                os.kill(self._child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])
        self._child = 0
        return failure, hung, code

    def _forward(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal: the child ends the program. Ctrl-C reaches it anyway, and a second time does no harm."""
        del frame
        if os.getpid() == self.own_pid:
            self._signal = self._signal or number
            if self._child:
                with contextlib.suppress(ProcessLookupError):  # It has just been waited for.
                    os.kill(self._child, number)
