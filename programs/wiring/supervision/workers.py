"""The processes and threads that nodes are: how they died, and how they are ended and started again."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent import futures

import psutil

from boonta.envs.names import is_boontas
from boonta.programs.wiring.run_folder.journal import tail
from boonta.programs.wiring.supervision.restarts import how_ended

LAST_BYTES = 10_000  # The end of a log in which an exception is looked for.
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt)(:|$)")  # The last line of a traceback.
KILL_S = 5.0  # Time that a killed process may take to be gone; one that waits for a disk takes longer.
StartAgain = Callable[[int], subprocess.Popen]  # Takes the number of lives that the node has had.


def import_path(own: str) -> str:
    """PYTHONPATH for a process that imports what this one can: modules beside the program's file, or where it started.

    Args:
      own: what the process would have otherwise.
    """
    folders = [sys.path[0], os.getcwd()]
    if is_boontas(sys.path[0]):  # Its packages would hide a user's of the same names.
        folders.reverse()
    return os.pathsep.join(filter(None, [*folders, own]))


class Process:
    """A node that is a process.

    Args:
      name: the node's name.
      process: its first one.
      start_again: starts the next one.
      log: the file that its processes write to; None for nowhere.
      together: a name for those that can't go on without each other, and so start again together; empty for none.

    Attributes:
      name, together: as given.
      pid: the id of its newest process.
      past_lives: the number of its processes before that.
    """

    def __init__(
        self,
        name: str,
        process: subprocess.Popen,
        start_again: StartAgain | None = None,
        log: pathlib.Path | None = None,
        together: str = "",
    ):
        self.name, self.together = name, together
        self._log = log
        self.pid = process.pid
        self.past_lives = 0
        self._process = process
        self._start_again = start_again
        self._sent: set[int] = set()  # Signals that we have sent.

    def alive(self) -> bool:
        return self._process.poll() is None

    def death(self) -> str:
        """Describes how it died; empty if it is alive, ended normally or was ended by us."""
        code = self._process.poll()
        if not code or -code in self._sent:
            return ""
        return how_ended(code)

    def last_words(self) -> str:
        """The exception with which its log ends, or else the log's last line; empty if there is none."""
        lines: list[str] = []
        if self._log is not None:
            with contextlib.suppress(OSError):
                lines = tail(self._log, LAST_BYTES).decode(errors="replace").splitlines()
        said = [line.strip() for line in lines if line.strip()]
        raised = [line for line in said if EXCEPTION.match(line)]
        return (raised or said or [""])[-1]

    def is_stopped(self) -> bool:
        """Whether a signal has stopped it, from which another one may wake it."""
        try:
            return psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.Error:
            return False

    def terminate(self) -> None:
        if self.alive():
            self._sent.add(signal.SIGTERM)
            self._process.terminate()

    def kill(self) -> None:
        if self.alive():
            self._sent.add(signal.SIGKILL)
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=KILL_S)

    def start_again(self) -> None:
        """Starts the node's next process; the one before must have ended."""
        assert self._start_again is not None, f"{self.name} can't be started again"
        self.past_lives += 1
        self._process = self._start_again(self.past_lives)
        self.pid = self._process.pid
        self._sent.clear()


class Thread:
    """A node that is a thread, which nothing else can end, or start again."""

    past_lives = 0
    together = ""

    def __init__(self, name: str, future: futures.Future):
        self.name = name
        self.pid = os.getpid()
        self._future = future

    def alive(self) -> bool:
        return not self._future.done()

    def death(self) -> str:
        """Describes how it died; empty if it is alive or ended normally."""
        error = None if self.alive() else self._future.exception()
        return f"raised {error!r}" if error else ""

    def last_words(self) -> str:
        return ""

    def is_stopped(self) -> bool:
        return False

    def terminate(self) -> None:
        """Does nothing."""

    def kill(self) -> None:
        """Does nothing."""

    def start_again(self) -> None:
        """Can't be done."""
        raise AssertionError(f"{self.name} is a thread")


Worker = Process | Thread
