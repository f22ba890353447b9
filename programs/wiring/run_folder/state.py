"""The state of a run, and the rows of its metrics, as any process can read them from its folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from boonta.nodes import metrics
from boonta.nodes.snapshots import schema
from boonta.programs.wiring.run_folder import journal
from boonta.programs.wiring.supervision import dependent

NODES = ".nodes"  # The file in a run's folder that the processes of its nodes hold, who may outlive their launcher.
TAIL = 1 << 17  # Bytes of a file of metrics that are read for its last row.
State = Literal["running", "ended", "cut off", "never started"]
SENTENCES: dict[State, str] = {
    "running": "it is running",
    "ended": "it has ended",
    "cut off": "it was cut off: its launcher was killed, or the machine went down",
    "never started": "it never started",
}


def state_of(workdir: pathlib.Path, log: Sequence[str]) -> State:
    """The state of a run with this log; for people `SENTENCES` has it."""
    if is_held(workdir):
        return "running"
    last = journal.since_start(log)
    if journal.end_of(last or log) is not None:
        return "ended"
    return "cut off" if last else "never started"


def sentence_of(workdir: pathlib.Path) -> str:
    """What a run does, or how it has ended, in a sentence."""
    log = journal.last_start(workdir)
    state, end = SENTENCES[state_of(workdir, log)], journal.end_of(log)
    if not end:
        return state
    return f"it was {end}" if end.startswith("ended by ") else f"{state}: {end}"


def is_held(workdir: pathlib.Path) -> bool:
    """Whether a process holds the run's folder, or a node of one that did still saves there."""
    try:
        with open(workdir / ".lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return dependent.holder(workdir / NODES) is not None


def last_row(workdir: pathlib.Path) -> Mapping[str, float | None]:
    """The last whole row of a run's metrics; empty if there is none."""
    with contextlib.suppress(OSError):
        for line in reversed(journal.tail(workdir / metrics.FILE, TAIL).splitlines()):
            with contextlib.suppress(ValueError):
                return schema.load(schema.ROW, line)
    return {}


class GrowingRows:
    """The rows of the metrics of a run that goes on; a look parses only those that are new.

    Args:
      workdir: the run's folder.
      names: the metrics that are kept of a row; None keeps all.
    """

    def __init__(self, workdir: pathlib.Path, names: Collection[str] | None = None):
        self._file, self._names = workdir / metrics.FILE, names
        self._rows: list[dict[str, float | None]] = []
        self._read = 0  # Bytes of the file.

    def look(self) -> list[dict[str, float | None]]:
        """The rows so far, without malformed ones; none before the first one."""
        with contextlib.suppress(OSError), open(self._file, "rb") as file:
            if os.fstat(file.fileno()).st_size < self._read:  # It is another file.
                self._rows, self._read = [], 0
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):  # The rest is still to be written.
                    break
                self._read += len(line)
                with contextlib.suppress(ValueError):
                    row = schema.load(schema.ROW, line)
                    self._rows.append({name: row[name] for name in row if self._names is None or name in self._names})
        return self._rows
