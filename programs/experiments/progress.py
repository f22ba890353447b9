"""The display of a sweep: a live table on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import collections
import contextlib
import datetime
import pathlib
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich import live, markup, table

from boonta.programs.experiments.outcome import OUTPUT
from boonta.programs.experiments.scheduler import DONE, FAILED, LEFT, PRUNED, RUNNING, State
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.config_file import read_config
from boonta.programs.wiring.run_folder.journal import outliving_terminal
from boonta.programs.wiring.run_folder.state import last_row

TABLE_EVERY_S = 2.0
LINE_EVERY_S = 60.0
SHOWN = 20  # Limit of the jobs in the live table that have failed or come next.


class Progress:
    """Shows a sweep's states; a context manager, which restores the terminal.

    Args:
      folder: the sweep's folder.
    """

    def __init__(self, folder: pathlib.Path):
        self._folder = folder
        self._live = live.Live(auto_refresh=False) if sys.stdout.isatty() else None
        self._next = time.monotonic()
        self._stages: dict[str, tuple[str, int]] = {}

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        with outliving_terminal():
            if self._live:
                self._live.stop()

    def show(self, states: Sequence[State]) -> None:
        """Refreshes the table, or prints what has changed and, now and then, a summary."""
        first = not self._stages
        changed = [s for s in states if self._stages.get(s.job.name, (LEFT, 0)) != (s.stage, s.failures)]
        self._stages = {state.job.name: (state.stage, state.failures) for state in states}
        due = time.monotonic() >= self._next
        with outliving_terminal():
            if self._live:
                if changed or due:
                    self._next = time.monotonic() + TABLE_EVERY_S
                    self._live.update(self.table_of(states), refresh=True)
                return
            for state in changed:
                if not (first and state.stage == DONE):  # The summary counts the jobs that earlier starts have done.
                    print(line(self._folder, state), flush=True)
            if due:
                self._next = time.monotonic() + LINE_EVERY_S
                print(summary(states), flush=True)

    def table_of(self, states: Sequence[State]) -> table.Table:
        """The sweep's state as a table: totals, then a row for each job that runs, has failed, or comes next."""
        whole = table.Table.grid()
        whole.add_row(f"[bold]{summary(states)}")
        jobs = table.Table("run", "stage", "for", "progress", "env steps", "return", "eval", box=None, padding=(0, 2))
        others = [state for state in states if state.stage in (FAILED, LEFT)]
        others.sort(key=lambda state: state.stage != FAILED)
        for state in [*(state for state in states if state.stage == RUNNING), *others[:SHOWN]]:
            row = last_row(self._folder / state.job.name)
            jobs.add_row(
                markup.escape(state.job.name) + stands_for(state),
                markup.escape(stage(state)),
                _age(state),
                _share(self._folder / state.job.name, row, max(1, len(state.job.members))),
                _number(row, "env_steps", ",.0f"),
                _number(row, "return", ".2f"),
                _number(row, "eval_return", ".2f"),
            )
        whole.add_row(jobs)
        if len(others) > SHOWN:
            whole.add_row(f"and {len(others) - SHOWN} more")
        return whole


def line(folder: pathlib.Path, state: State) -> str:
    """A job's stage, and if it is done its last evaluation, as a line of text."""
    parts = [f"{state.job.name}{stands_for(state)}: {stage(state)}"]
    if state.stage == DONE:
        mean = "mean " if state.job.members else ""
        parts.append(f"{mean}eval {_number(last_row(folder / state.job.name), 'eval_return', '.2f')}")
        parts += [f"after {_age(state)}"] if state.since else []  # Those of earlier starts have no time here.
    return ", ".join(parts)


def summary(states: Sequence[State]) -> str:
    """How many runs are done, running, failing and left; a population counts as the runs that it stands for."""
    runs: collections.Counter[str] = collections.Counter()
    for state in states:
        failing = state.failures and state.stage in (LEFT, RUNNING)
        runs["failing, and tried again" if failing else state.stage] += len(state.job.runs)
    names = (DONE, RUNNING, "failing, and tried again", FAILED, PRUNED, LEFT)
    always = (DONE, RUNNING, FAILED, LEFT)
    counts = ", ".join(f"{runs[name]} {name}" for name in names if runs[name] or name in always)
    total = sum(runs.values())
    return f"{total} run{'' if total == 1 else 's'}: {counts}"


def failures(folder: pathlib.Path, states: Sequence[State]) -> list[str]:
    """A line for each job that has failed: its cause, and the file of its output."""
    return [
        f"{state.job.name} failed: {state.cause} (see {folder / state.job.name / OUTPUT})"
        for state in states
        if state.stage == FAILED
    ]


def stage(state: State) -> str:
    """A job's stage, with the cause of its last failure."""
    again = f" ({state.failures}x failed)" if state.failures else ""
    return f"{state.stage}{again}{f': {state.cause}' if state.cause else ''}"


def stands_for(state: State) -> str:
    """How many runs a population stands for."""
    return f" (a population of {len(state.job.runs)} runs)" if state.job.members else ""


def _age(state: State) -> str:
    return str(datetime.timedelta(seconds=round(time.monotonic() - state.since))) if state.since else "-"


def _number(row: Mapping[str, float | None], name: str, form: str) -> str:
    value = row.get(name)
    return "-" if value is None else format(value, form)


def _share(folder: pathlib.Path, row: Mapping[str, float | None], members: int) -> str:
    """How far a job is on the way to the nearest of its limits."""
    limits: dict[str, Any] = {}
    with contextlib.suppress(BadInput):  # Its own process reports the fault, or has written nothing yet.
        limits = read_config(folder).run.get("stop", {})
    shares = []
    for name in ("env_steps", "updates", "seconds"):
        limit, reached = limits.get(name), row.get(name)
        if limit and reached is not None:
            shares.append(reached / limit / (members if name == "env_steps" else 1))  # They count together.
    return format(min(1.0, max(shares)), ".0%") if shares else "-"
