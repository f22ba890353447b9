"""A program that runs in the background of a test: its processes, its counters, and what it prints."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import psutil

from boonta.nodes import metrics
from boonta.tests.helpers.deadline import DEADLINE_S

ROOT = pathlib.Path(__file__).resolve().parents[2]
POLL_S = 0.2
COUNTERS = ("env_steps", "updates")


def have_grown_twice(rows: Sequence[dict[str, float]]) -> bool:
    """Whether each counter has grown twice in these rows, in the same ones or in others.

    A light program writes more rows than its nodes send heartbeats: one row may have the actors' steps of the last
    second and the next one the learner's, for as long as the two send at the same distance.
    """
    return all(len({row[name] for row in rows}) > 2 for name in COUNTERS)


class Running:
    """A context manager that starts a program, and kills what is left of it in the end.

    Args:
      folder: for what it prints, its temporary files, and its run unless `workdir` is given.
      program: its file, relative to the repository.
      arguments: of its command line.
      workdir: the run's folder.
      before: a command that the program's is appended to.

    Attributes:
      workdir: the run's folder.
      process: the launcher.
      temporary: the folder that it takes for the machine's temporary one.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        program: str,
        *arguments: str,
        workdir: pathlib.Path | None = None,
        before: Sequence[str] = (),
    ):
        self.workdir = workdir or folder / "run"
        self.temporary = folder / "temporary"
        self.temporary.mkdir(exist_ok=True)
        self._printed = folder / "printed"
        command = [*before, sys.executable, str(ROOT / program), *arguments, "--workdir", str(self.workdir)]
        with open(self._printed, "wb") as printed:
            self.process = subprocess.Popen(
                command,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "TMPDIR": str(self.temporary), "PYTHONUNBUFFERED": "1"},
            )

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(ProcessLookupError):  # All of its processes have ended.
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def printed(self) -> str:
        """What it has printed so far."""
        return self._printed.read_text(errors="replace")

    @property
    def pids(self) -> dict[str, int]:
        """By node, its newest process."""
        with contextlib.suppress(ValueError):  # None has been launched yet.
            *_, file = sorted(self.workdir.glob("logs/*/pids.json"))
            return json.loads(file.read_text())
        return {}

    @property
    def rows(self) -> list[dict[str, float]]:
        """The rows of metrics that have all counters."""
        try:
            return [row for row in metrics.read(self.workdir) if set(COUNTERS) <= set(row)]  # type: ignore[misc]
        except OSError:
            return []

    @property
    def orphans(self) -> list[int]:
        """Its processes that still run, once the launcher has ended."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError, psutil.Error):
                if os.getsid(process.pid) == self.process.pid and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process.pid)
        return found

    def wait_until(self, condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
        """Waits for something while the program runs."""
        deadline = time.monotonic() + deadline_s
        while not condition():
            assert self.process.poll() is None, f"ended before {what}: {self.printed}"
            assert time.monotonic() < deadline, f"not {what}: {self.printed}"
            time.sleep(POLL_S)

    def wait_until_it_works(self) -> None:
        """Waits until all counters have grown twice from now on."""
        seen = len(self.rows)
        self.wait_until(lambda: have_grown_twice(self.rows[seen:]), "all counters grow")

    def end(self, number: int = signal.SIGTERM, deadline_s: float = DEADLINE_S) -> str:
        """Ends the program by a signal to its launcher, and waits for all processes; returns what it has printed."""
        self.process.send_signal(number)
        return self.finish(128 + number, deadline_s)

    def finish(self, code: int, deadline_s: float = DEADLINE_S) -> str:
        """Waits until it has ended with this code, without an orphan; returns what it has printed."""
        try:
            self.process.wait(timeout=deadline_s)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"did not end: {self.printed}") from error
        assert self.process.returncode == code, self.printed
        assert not self.orphans
        assert not list(self.temporary.iterdir()) and not (self.workdir / "tmp").exists()
        return self.printed
