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
from typing import Any, TextIO

from boonta.nodes.watch.stopping import COLLAPSED_CODE
from boonta.programs.wiring.machine import accelerators, memory
from boonta.programs.wiring.run_folder.journal import outliving_terminal
from boonta.programs.wiring.supervision import dependent, interrupts
from boonta.programs.wiring.supervision.output import REST_S, has_room
from boonta.programs.wiring.supervision.restarts import History, Restarts, how_ended

SILENT_S = 20.0  # Time without a report after which the process counts as hung, once it has worked.
START_S = 180.0  # The same before it has worked, and while it ends.
POLL_S = 0.25
LONGEST = 2_000  # Characters of a failure that are reported: a pipe that nobody reads takes no more than 64 KB.

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
        sys.stdout.flush()
        sys.stderr.flush()
        with interrupts.held(interrupts.ENDING):  # A fork has its parent's handlers at first.
            try:
                pid, pipe = parent.start()
            except OSError as error:
                pid, refusal = -1, f"could not be started: {error}"
            if pid == 0:
                _become_guarded(pipe, parent.own_pid)
                return
        code = parent.watch(pipe) if pid > 0 else parent.lose(refusal)
        if code is not None:
            parent.print_rest()
            sys.exit(code)


def report(worked: bool, ending: bool = False, failure: str = "") -> None:
    """Reports to the guard, if there is one, that the program lives.

    Args:
      worked: whether all nodes have begun to work.
      ending: whether this is the last report; libraries may take long at a process's exit.
      failure: why the program has failed, if it has; the guard gets its first `LONGEST` characters.
    """
    if _pipe is not None:
        line = json.dumps({"worked": worked, "ending": ending, "failure": failure[:LONGEST]}) + "\n"
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
        self._unprinted: list[tuple[TextIO, str]] = []  # Lines for which the terminal has had no room.
        interrupts.handle(self._forward)

    def start(self) -> tuple[int, int]:
        """Starts a child; returns its process id and the pipe that it reports to, in a forked child itself 0 and that.

        Raises:
          OSError: the machine has no memory, process ids or file descriptors left at the moment.
        """
        reader, writer = os.pipe()
        try:
            self._child = self._run_anew(writer) if accelerators.taken() else os.fork()
        except OSError:
            os.close(reader)
            os.close(writer)
            raise
        own, other = (reader, writer) if self._child else (writer, reader)
        os.close(other)
        return self._child, own

    def _run_anew(self, writer: int) -> int:
        """Runs this process's command in a child; returns its process id."""
        os.set_inheritable(writer, True)
        environment = {**os.environ, GUARD: f"{writer} {os.getpid()}"}
        command = [sys.executable, *sys.orig_argv[1:]]
        return os.posix_spawn(sys.executable, command, environment, setsigmask=())

    def watch(self, pipe: int) -> int | None:
        """Waits for the child's end and, if it is to be started again, until then; otherwise returns the exit code."""
        if self._signal:
            os.kill(self._child, signal.SIGTERM)  # The signal came before there was a child to forward it to.
        with open(pipe, "rb", buffering=0) as reports:
            failure, hung, code = self._follow(reports)
        if self._signal or code in (0, 2, COLLAPSED_CODE, *interrupts.ASKED_TO_END):  # Restarting is of no use.
            return code if code >= 0 else 128 + (self._signal or -code)
        cause = hung or (f"failed: {failure}" if failure else how_ended(code))
        return self.lose(cause, code, raised=code > 0 and not hung)

    def lose(self, cause: str, code: int = 1, raised: bool = False) -> int | None:
        """Notes a death; waits until the child is to be started again, or returns the exit code if it isn't.

        Args:
          cause: what happened, as a predicate.
          code: the child's exit code.
          raised: whether the child has failed by itself, and so has printed the cause.
        """
        decision = self._history.die(time.monotonic(), cause, raised)
        if decision.failure:
            if not raised or len(self._history.deaths) > 1:
                self._unprinted.append((sys.stderr, f"error: {decision.failure}"))
            return max(code, 1)
        self._unprinted.append(
            (sys.stdout, f"warning: {self._name} {cause}; it starts again in {decision.delay_s:g} s")
        )
        self._print_if_room()
        assert self._history.due is not None
        while time.monotonic() < self._history.due and not self._signal:
            time.sleep(POLL_S)
            self._print_if_room()
        if self._signal:
            return 128 + self._signal
        self._history.begin(time.monotonic())
        return None

    def _print_if_room(self) -> None:
        """Prints what waits to be printed, unless nobody reads it now: neither a start nor a signal is to wait."""
        while self._unprinted and has_room(self._unprinted[0][0]):
            stream, line = self._unprinted.pop(0)
            with outliving_terminal():
                print(line, file=stream, flush=True)

    def print_rest(self) -> None:
        """Prints what still waits to be printed, unless nobody reads it in time."""
        end = time.monotonic() + REST_S
        self._print_if_room()
        while self._unprinted and time.monotonic() < end:
            time.sleep(POLL_S)
            self._print_if_room()

    def _follow(self, reports: Any) -> tuple[str, str, int]:
        """Reads what the child reports until it has ended; returns why it failed, how it hung, and its exit code."""
        failure = hung = ""
        rest, silent_s, ending, works = b"", 0.0, False, False
        while True:
            self._print_if_room()
            # Processes that the child has forked may keep the pipe open beyond its end. What it reported is read first.
            ended = os.waitid(os.P_PID, self._child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            asked_at = time.monotonic()
            if select.select([reports], [], [], 0.0 if ended else POLL_S)[0]:
                news = reports.read(1 << 16)
                if not news:
                    break
                *lines, rest = (rest + news).split(b"\n")
                for line in map(json.loads, lines):
                    works |= line["worked"]
                    self._history.worked |= works
                    failure, ending, silent_s = line["failure"] or failure, line["ending"], 0.0
            elif ended:
                break
            elif has_room(sys.stdout) and has_room(sys.stderr):  # One that prints to a stopped terminal doesn't hang.
                # The parent may have been stopped for the rest of a longer time.
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
