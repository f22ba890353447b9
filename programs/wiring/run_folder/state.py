"""The state of a run, and the rows of its metrics, as any process can read them from its folder."""

from __future__ import annotations

import fcntl
import pathlib
from collections.abc import Sequence
from typing import Literal

from boonta.nodes import metrics
from boonta.programs.wiring.run_folder import journal

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
    """Whether a process holds the run's folder."""
    try:
        with open(workdir / ".lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def rows_of(workdir: pathlib.Path) -> list[dict[str, float | None]]:
    """The rows of a run's metrics; none before the first one."""
    try:
        return metrics.read(workdir)
    except OSError:
        return []
