"""The display of a sweep."""

from __future__ import annotations

import io
import json
import pathlib

import pytest
from rich import console

from boonta.programs.experiments.plan import Job
from boonta.programs.experiments.progress import Progress, summary
from boonta.programs.experiments.scheduler import DONE, FAILED, LEFT, RUNNING, State
from boonta.programs.experiments.spec import Entry
from boonta.programs.wiring.run_folder.state import last_row


def job(name: str, runs: int = 1) -> Job:
    entries = tuple(Entry(f"{name}{i}", "p.py", "catch", i, {}, {}) for i in range(runs))
    return Job(name, entries, tuple({"seed": i} for i in range(runs)) if runs > 1 else ())


@pytest.fixture
def states(tmp_path) -> list[State]:
    """A population half-way, a job that has failed, one that is tried again, one that is done, and two that wait."""
    for name, members in (("many", 4), ("done", 1)):
        (tmp_path / name).mkdir()
        run = {"stop": {"env_steps": 100, "updates": None}}
        config = {"program": "p", "seed": 0, "settings": {}, "run": run}
        (tmp_path / name / "config.json").write_text(json.dumps(config))
        row = {"env_steps": 50 * members, "return": 0.25, "eval_return": None}
        (tmp_path / name / "metrics.jsonl").write_text(f'{json.dumps(row)}\n{{"env_steps": 9')
    return [
        State(job("many", 4), RUNNING, since=1.0),
        State(job("bad"), FAILED, failures=2, cause="the learner [broke]"),
        State(job("again"), LEFT, failures=1, cause="no luck"),
        State(job("done"), DONE),
        State(job("next"), LEFT),
        State(job("last"), LEFT),
    ]


def shown(folder: pathlib.Path, states: list[State]) -> list[str]:
    screen = console.Console(file=io.StringIO(), width=200)
    screen.print(Progress(folder).table_of(states))
    return screen.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_the_table_has_what_runs_what_failed_and_what_comes_next(tmp_path, states):
    lines = shown(tmp_path, states)
    assert lines[0].strip() == "9 runs: 1 done, 4 running, 1 failing, and tried again, 1 failed, 2 left"
    assert [line.split()[0] for line in lines[2:]] == ["many", "bad", "again", "next", "last"]
    many, bad, again = lines[2:5]
    assert "many (a population of 4 runs)" in many and " 50% " in many and " 200 " in many and " 0.25 " in many
    assert "failed (2x failed): the learner [broke]" in bad and "left (1x failed): no luck" in again


def test_where_there_is_no_terminal_each_change_is_a_line(tmp_path, states, capsys):
    with Progress(tmp_path) as progress:
        progress.show(states)
        counts = summary(states)
        states[4].stage = RUNNING
        progress.show(states)
        states[4].stage = DONE
        progress.show(states)
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0] == "many (a population of 4 runs): running"
        and lines[1] == "bad: failed (2x failed): the learner [broke]"
    )
    assert lines[3:] == [counts, "next: running", "next: done, eval -"]


def test_the_last_row_is_the_last_whole_one(tmp_path, states):
    assert last_row(tmp_path / "done") == {"env_steps": 50, "return": 0.25, "eval_return": None}
    assert last_row(tmp_path / "none") == {}
