"""Runs a sweep's jobs in slots: several at once, each a process of its own, until all are done or have failed."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import errno
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import IO

from boonta.nodes.snapshots import files
from boonta.nodes.watch.program_end import SAVING_S
from boonta.programs.experiments import outcome
from boonta.programs.experiments.plan import Job
from boonta.programs.experiments.slots import Slot, on_cores
from boonta.programs.wiring.run_folder.state import is_held
from boonta.programs.wiring.supervision import dependent
from boonta.programs.wiring.supervision.interrupts import ASKED_TO_END, Signals
from boonta.programs.wiring.supervision.supervise import THREADS_GRACE_S

POLL_S = 0.25
END_S = THREADS_GRACE_S + SAVING_S + 30.0  # Time between the request to end and SIGKILL; a program has less itself.
REFUSED = 2  # A program's exit code for a command line that can't work.
# What a machine may lack for a moment: processes or memory, files, room on the disk.
SCARCE = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, *files.NO_ROOM)
SCARCE_S = 300.0  # Time in which a job that can't be started for want of these is tried again.
PAUSE_S = 1.0  # Time until it is tried again first; the time since the first attempt then doubles each time.
LEFT, RUNNING, DONE, FAILED, PRUNED = "left", "running", "done", "failed", "pruned"


@dataclasses.dataclass
class State:
    """The state of a job.

    Attributes:
      job: the job.
      stage: "left", "running", "done", "failed" or "pruned".
      failures: number of its failures since the sweep's start.
      cause: the cause of its last failure.
      slot: the slot in which it runs.
      since: when it was last started, or failed, in seconds of the monotonic clock.
      process: its launcher.
      output: the file that its processes print into.
      pruning: whether it was asked to end because its trial is worse than others.
    """

    job: Job
    stage: str = LEFT
    failures: int = 0
    cause: str = ""
    slot: Slot | None = None
    since: float = 0.0
    process: subprocess.Popen | None = None
    output: IO[bytes] | None = None
    pruning: bool = False


class Source:
    """A source of jobs that aren't known in advance; this one has none."""

    def take(self) -> Sequence[Job]:
        """Further jobs for a free slot; none if there are none for now."""
        return ()

    def settled(self, job: Job) -> tuple[str, str]:
        """The stage in which a job ended in an earlier start of the sweep, "" if it is to run; and the cause."""
        del job
        return "", ""

    def ended(self, state: State) -> None:
        """Records a job that is done, has failed for good, or was pruned; it may find that one has failed."""

    def prunes(self, job: Job) -> bool:
        """Whether a running job is to end before its time."""
        del job
        return False


class Scheduler:
    """Runs jobs until none is left.

    Args:
      folder: the sweep's folder.
      jobs: the jobs that are known in advance.
      slots: the places in which they run.
      retries: number of times that a failed job is started again.
      show: called with all states after each change, and at least every `POLL_S`.
      source: the source of further jobs.

    Attributes:
      states: the states of all jobs so far.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        jobs: Sequence[Job],
        slots: Sequence[Slot],
        retries: int,
        show: Callable[[Sequence[State]], None] = lambda states: None,
        source: Source | None = None,
    ):
        self._folder = folder
        self._retries = retries
        self._show = show
        self._source = source or Source()
        self._free = collections.deque(slots)
        self.states: list[State] = []
        self._left: collections.deque[State] = collections.deque()
        self._add(jobs)
        self._scarce_since: float | None = None  # When the next job couldn't be started for want of something.
        self._try_at = 0.0  # The time at which it is tried again.
        self._began, self._asked = time.monotonic(), 0.0  # The times of its start, and of the request to end.

    def run(self) -> int:
        """Returns the exit code: 0 if all jobs are done, 1 if some have failed, 130 or 143 after a signal."""
        signals = Signals()
        try:
            while not self._is_over(signals):
                for state in self._running():
                    self._tend(state)
                if not signals.number:
                    self._fill()
                elif not self._asked:
                    self._asked = time.monotonic()
                    for state in self._running():
                        self._ask_to_end(state)
                self._show(self.states)
                time.sleep(POLL_S)
        finally:
            self._kill_all()
        if signals.number:
            return 128 + signals.number
        return int(any(state.stage == FAILED for state in self.states))

    def _is_over(self, signals: Signals) -> bool:
        """Whether no job runs or could start, or the time of jobs that were asked to end is over."""
        if self._running():
            return self._asked > 0 and time.monotonic() - self._asked > END_S
        if signals.number:
            return True
        self._fill()
        return not self._running() and not self._left

    def _running(self) -> list[State]:
        return [state for state in self.states if state.stage == RUNNING]

    def _add(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            done = outcome.is_done(self._folder / job.name, job)
            stage, cause = self._source.settled(job)
            state = State(job, stage or (DONE if done else LEFT), cause=cause)
            self.states.append(state)
            if state.stage == LEFT:
                self._left.append(state)
            else:
                self._source.ended(state)

    def _fill(self) -> None:
        """Starts jobs in the slots that are free."""
        while self._free and not self._left and (more := self._source.take()):
            self._add(more)
        for _ in range(len(self._left)):
            if not self._free or time.monotonic() < self._try_at:
                return
            state = self._left.popleft()
            if not is_held(self._folder / state.job.name):
                self._start(state)
            elif time.monotonic() - max(self._began, state.since) > END_S:
                self._end(state, FAILED, "its folder is in use by another process")
            else:  # After a sweep or a run's launcher was killed, the rest saves, and then ends.
                state.cause = "its folder is in use by another process"
                self._left.append(state)

    def _start(self, state: State) -> None:
        state.slot, folder = self._free.popleft(), self._folder / state.job.name
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            state.output = open(folder / outcome.OUTPUT, "ab")  # noqa: SIM115  # It is closed in `_release`.
            with on_cores(state.slot.cores):
                state.process = subprocess.Popen(
                    dependent.command(sys.executable, *state.job.command(folder)),
                    stdin=subprocess.DEVNULL,
                    stdout=state.output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **state.slot.environment, "PYTHONUNBUFFERED": "1"},
                    start_new_session=True,  # The sweep gets Ctrl-C from the terminal, and passes it on.
                )
        except OSError as error:
            self._release(state)
            self._refuse(state, error)
            return
        state.stage, state.since, self._scarce_since = RUNNING, time.monotonic(), None
        state.cause = state.cause if state.failures else ""  # It no longer waits for its folder.

    def _refuse(self, state: State, error: OSError) -> None:
        """Handles a job that can't be started: for want of what may be there again soon, it stays the next one."""
        now, cause = time.monotonic(), f"can't be started: {error}"
        since = now if self._scarce_since is None else self._scarce_since
        if error.errno in SCARCE and now - since < SCARCE_S:
            state.cause, self._scarce_since = cause, since
            self._try_at = now + max(PAUSE_S, now - since)
            self._left.appendleft(state)
        else:
            self._scarce_since = None
            self._end(state, FAILED, cause)

    def _tend(self, state: State) -> None:
        """Handles the end of a running job."""
        assert state.process is not None
        code = state.process.poll()
        if code is None:
            if not state.pruning and self._source.prunes(state.job):
                state.pruning = True
                self._ask_to_end(state)
            return
        self._release(state)
        if code in outcome.ENDED:
            self._end(state, DONE, "learning collapsed" if code else "")
        elif code in ASKED_TO_END and state.pruning:
            self._end(state, PRUNED, "its trial is worse than the median of others")
        elif code in ASKED_TO_END and self._asked:
            state.stage = LEFT
        else:
            self._fail(state, code)

    def _fail(self, state: State, code: int) -> None:
        state.failures += 1
        cause = outcome.cause(self._folder / state.job.name, code)
        if code == REFUSED or state.failures > self._retries:
            self._end(state, FAILED, cause)
        else:
            state.stage, state.cause, state.since = LEFT, cause, time.monotonic()
            self._left.append(state)

    def _end(self, state: State, stage: str, cause: str) -> None:
        state.stage, state.cause = stage, cause
        self._source.ended(state)

    def _release(self, state: State) -> None:
        """Gives a job's slot back."""
        assert state.slot is not None
        if state.output is not None:
            state.output.close()
        self._free.append(state.slot)
        state.slot = state.output = None

    def _ask_to_end(self, state: State) -> None:
        """Asks a job to save and end. Unlike SIGINT, a shell's background commands never ignore SIGTERM."""
        assert state.process is not None
        with contextlib.suppress(ProcessLookupError):
            state.process.send_signal(signal.SIGTERM)

    def _kill_all(self) -> None:
        for state in self._running():
            assert state.process is not None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(state.process.pid, signal.SIGKILL)
            state.process.wait()
            self._release(state)
            state.stage = LEFT
