"""The processes beside a run, outside its private network: for each tracker of `--log`, `--dashboard` and `--videos`.

See `nodes.sinks.follow`, `programs.reports.live` and `programs.reports.videos`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import NamedTuple

from boonta.nodes.sinks import base, follow
from boonta.programs.wiring.run import Run
from boonta.programs.wiring.run_folder.journal import LOG
from boonta.programs.wiring.supervision.workers import import_path

DASHBOARD, LIVE = "dashboard", "boonta.programs.reports.live"
RECORDER = "boonta.programs.reports.videos"
STARTED = "BOONTA_TRACKERS"  # The variable by which this process, once it has executed its command anew, finds them.
END_S = follow.END_S + 2.0  # The processes end by themselves within `follow.END_S`.
LAST_VIDEO_S = 90.0  # Time after the run's end for the video of its last checkpoint, which may be its only one.


class Process(NamedTuple):
    """The process of one tracker, or of the dashboard.

    Attributes:
      name: the tracker's name, as `--log` gives it, or "dashboard" or "videos".
      pid: its process id.
      control: a file descriptor of the launcher; the process ends once it is closed, also if the launcher is killed.
      messages: the file descriptor of its messages, which closes when the process has ended.
    """

    name: str
    pid: int
    control: int
    messages: int


class Trackers:
    """The processes beside a run: a context manager that logs their messages, and ends them with the run."""

    def __init__(self) -> None:
        self._processes: list[Process] = []
        self._readers: dict[Process, threading.Thread] = {}
        self._ending = False

    def start(self, run: Run) -> None:
        """Starts the processes. The run must not have its private network yet, which reaches nothing outside.

        If this process later executes its command anew, the processes stay and are not started again. They send nothing
        before the run's folder has rows.

        Raises:
          ImportError: a tracker's package is missing; the message says how to install it.
        """
        started = os.environ.pop(STARTED, None)
        if started is not None:
            self._processes = [_parsed(each) for each in started.splitlines()]
            self._inherit(False)
        elif run.hosts.first:
            names = [name for name in run.log if name != base.TENSORBOARD]
            for name in names:
                base.require(name)
            commands = {name: [follow.MODULE, run.workdir, name, follow.LAUNCHED] for name in names}
            if run.dashboard:
                commands[DASHBOARD] = [LIVE, run.workdir]
            if run.videos:
                commands[base.VIDEOS] = [RECORDER, run.workdir]
            self._processes = [_spawn(name, command) for name, command in commands.items()]

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Keeps the processes if this process executes its command anew within the block."""
        if self._processes:
            os.environ[STARTED] = "\n".join(" ".join(map(str, each)) for each in self._processes)
        self._inherit(True)
        try:
            yield
        finally:
            os.environ.pop(STARTED, None)
            self._inherit(False)

    def __enter__(self) -> Trackers:
        for process in self._processes:
            reader = threading.Thread(target=self._read, args=(process,), daemon=True)
            reader.start()
            self._readers[process] = reader
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(END_S)

    def end(self, wait_s: float = 0.0) -> None:
        """Ends the processes, each of which has this time to send the rest of its rows.

        Trackers get the last video, too, for which they have to wait; without time there is none.
        """
        self._ending = True
        recorder = [process for process in self._processes if process.name == base.VIDEOS]
        self._end(recorder, LAST_VIDEO_S if wait_s else 0.0)
        self._end([process for process in self._processes if process not in recorder], wait_s)
        self._processes = []

    def _end(self, processes: Sequence[Process], wait_s: float) -> None:
        for process in processes:
            os.close(process.control)
        deadline = time.monotonic() + wait_s
        for process in processes:
            if process in self._readers:
                self._readers[process].join(max(0.0, deadline - time.monotonic()))
            with contextlib.suppress(OSError):  # It has ended, and left nothing behind.
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, 0)

    def _read(self, process: Process) -> None:
        with open(process.messages, errors="replace") as messages:
            for message in messages:
                # A dashboard's line is its address; the others report only what went wrong.
                LOG.log(logging.INFO if process.name == DASHBOARD else logging.WARNING, message.strip())
        if not self._ending:
            own = process.name in (DASHBOARD, base.VIDEOS)
            reason = "" if own else f", see {follow.FOLDER}/ in the run's folder"
            LOG.warning("%s: its process has ended%s", process.name, reason)

    def _inherit(self, inherit: bool) -> None:
        for process in self._processes:
            for descriptor in (process.control, process.messages):
                os.set_inheritable(descriptor, inherit)


def _parsed(line: str) -> Process:
    name, *numbers = line.rsplit(" ", 3)
    return Process(name, *map(int, numbers))


def _spawn(name: str, command: Sequence[str]) -> Process:
    """Starts a process beside the run: a module and its arguments."""
    control_end, control = os.pipe()
    messages, messages_end = os.pipe()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", *command],
        # Accelerators are the run's own.
        {**os.environ, "PYTHONPATH": import_path(os.environ.get("PYTHONPATH", "")), "JAX_PLATFORMS": "cpu"},
        file_actions=[(os.POSIX_SPAWN_DUP2, control_end, 0), (os.POSIX_SPAWN_DUP2, messages_end, 1)],
        setpgroup=0,  # Ctrl-C is for the launcher alone.
    )
    os.close(control_end)
    os.close(messages_end)
    return Process(name, pid, control, messages)
