"""The outcome of a job's process, read from its folder."""

from __future__ import annotations

import contextlib
import pathlib

from boonta.nodes.watch.stopping import COLLAPSED_CODE
from boonta.programs.experiments.plan import Job
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder import journal
from boonta.programs.wiring.run_folder.config_file import read_config, without_secrets
from boonta.programs.wiring.run_folder.state import is_held
from boonta.programs.wiring.supervision.restarts import how_ended

OUTPUT = "output.log"  # The file in the run's folder with all that its processes print.
ENDED = (0, COLLAPSED_CODE)  # Exit codes of a program that its stop rule has ended.
TAIL = 1 << 16  # Bytes of the output that are read for its last lines.


def is_done(folder: pathlib.Path, job: Job) -> bool:
    """Whether a job has reached its stop rule, with the very command line that it would be started with now."""
    if is_held(folder) or journal.last_code(folder) not in ENDED:
        return False
    try:
        recorded = read_config(folder).arguments  # An older Boonta has left the secrets in.
        return without_secrets(recorded) == without_secrets(job.command(folder)[1:])
    except BadInput:
        return False  # Its own process will report the fault.


def cause(folder: pathlib.Path, code: int) -> str:
    """A line with the reason why a job failed.

    Args:
      folder: its folder.
      code: its process's exit code, or the negative number of the signal that killed it.
    """
    if code < 0:
        return how_ended(code)
    log = map(journal.parse, journal.last_start(folder))
    errors = [line.message for line in log if line.level == "ERROR"]
    if errors and code == 1:
        return errors[-1]
    printed: list[str] = []
    with contextlib.suppress(OSError):
        printed = journal.tail(folder / OUTPUT, TAIL).decode(errors="replace").splitlines()
    reported = [line.removeprefix("error: ") for line in printed if line.startswith("error: ")]
    return (reported or [f"{how_ended(code)}: {line}" for line in printed] or [how_ended(code)])[-1]
