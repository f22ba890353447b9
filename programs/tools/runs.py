"""Lists runs with their start, counters, return, and state or end.

./run boonta runs
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import pathlib

import tyro
from rich.markup import escape
from rich.table import Table

from boonta.nodes import metrics
from boonta.nodes.snapshots import schema
from boonta.nodes.snapshots.store import LEARNERS
from boonta.programs.reports import tables
from boonta.programs.wiring.command_line.faults import command
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder import journal
from boonta.programs.wiring.run_folder.config_file import Config, read_config
from boonta.programs.wiring.run_folder.state import state_of
from boonta.programs.wiring.supervision.view import with_error

COLUMNS = ("run", "started", "launch", "env steps", "updates", "time", "return", "state")
NUMBERS = COLUMNS[3:7]  # These columns are aligned to the right.


def runs(workdirs: tyro.conf.Positional[pathlib.Path] = pathlib.Path("runs")) -> None:
    """Lists the runs in a folder, the newest first.

    Args:
      workdirs: the folder that holds the runs' folders, or those of sweeps.
    """
    if (workdirs / schema.CONFIG).is_file():
        raise BadInput(f"{workdirs} is a run's own folder; see `boonta status {workdirs}`")
    names = (schema.CONFIG, *LEARNERS)  # One without a config.json may have snapshots.
    found = {path.parent for parts in ("*", "*/*") for name in names for path in workdirs.glob(f"{parts}/{name}")}
    if not found:
        raise BadInput(f"{workdirs} holds no runs")
    table = Table(box=None, pad_edge=False)
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in NUMBERS else "left", overflow="fold")
    for row in sorted((_row(run, workdirs) for run in found), key=lambda row: row[1], reverse=True):
        table.add_row(*map(escape, row))
    tables.show(table)


def _row(run: pathlib.Path, workdirs: pathlib.Path) -> list[str]:
    """The cells of a run, empty where it has no value."""
    name = str(run.relative_to(workdirs))
    try:
        config = read_config(run)
    except BadInput as error:
        return [name, "", "", "", "", "", "", f"unreadable: {error}"]
    last = _last(run)
    numbers = [f"{last[counter]:,.0f}" if counter in last else "" for counter in ("env_steps", "updates")]
    seconds = last.get("seconds")
    time = "" if seconds is None else str(datetime.timedelta(seconds=round(seconds)))
    return [name, _started(config), str(config.run.get("launch", "")), *numbers, time, _return(last), _state(run)]


def _last(run: pathlib.Path) -> dict[str, float]:
    """The newest value of each metric."""
    last: dict[str, float] = {}
    with contextlib.suppress(OSError):
        for row in metrics.each(run):
            last.update((name, value) for name, value in row.items() if value is not None)
    return last


def _started(config: Config) -> str:
    """The local time of the last start; empty if an older Boonta didn't record it."""
    if config.provenance is None:
        return ""
    return datetime.datetime.fromisoformat(config.provenance.started).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _return(last: dict[str, float]) -> str:
    """The newest evaluation with its standard error; without any, the newest return of training."""
    if "eval_return" in last:
        return with_error(last["eval_return"], last.get("eval_return_se"))
    return f"{last['return']:.2f} in training" if "return" in last else ""


def _state(run: pathlib.Path) -> str:
    """Its state, or the line of its log with the way in which it ended."""
    log = journal.last_start(run)
    state = state_of(run, log)
    return (journal.end_of(log) or state) if state == "ended" else state


main = functools.partial(command, runs)
