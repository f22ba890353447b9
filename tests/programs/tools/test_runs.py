"""The list of runs, of folders that their runs have left in every way."""

from __future__ import annotations

import pathlib

import pytest

from boonta.nodes import metrics
from boonta.programs.tools import runs as tool
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.folder import lock
from boonta.tests.helpers import run_folders


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")


def listed(folder: pathlib.Path, capsys) -> list[list[str]]:
    """The table's rows, without its head, as words."""
    tool.runs(folder)
    return [line.split() for line in capsys.readouterr().out.splitlines()[1:]]


def test_the_newest_comes_first_with_what_it_reached(tmp_path, capsys):
    run_folders.write_run(tmp_path / "impala-catch")
    later = run_folders.provenance(started="2026-05-06T00:00:00+00:00")
    rows = [{"env_steps": 1_000, "updates": 7, "seconds": 61.4, "return": 2.5}]
    run_folders.write_run(tmp_path / "sweep" / "muzero-catch", origin=later, metrics=rows, end=["INFO ended by SIGINT"])
    first, second = listed(tmp_path, capsys)
    assert first[0] == "sweep/muzero-catch" and second[0] == "impala-catch"
    assert first[3:] == ["anakin", "1,000", "7", "0:01:01", "2.50", "in", "training", "ended", "by", "SIGINT"]
    assert second[3:] == ["anakin", "300", "3", "0:00:30", "1.00", "done:", "updates", "reached", "3"]


def test_where_there_is_no_terminal_lines_are_whole(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    run_folders.write_run(tmp_path / ("impala-" + 90 * "x"))
    (row,) = listed(tmp_path, capsys)
    assert row[0] == "impala-" + 90 * "x" and len(row) > 5


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        (["ERROR learner failed while updating: [oh]"], "learner failed while updating: [oh]"),
        ([], "cut off"),
        (["INFO done: updates reached 3", "DEBUG started: again", "ERROR full disk"], "full disk"),
        (["INFO done: updates reached 3", "DEBUG started: again"], "cut off"),
    ],
)
def test_how_it_ended_the_last_time(tmp_path, capsys, end, shown):
    run_folders.write_run(tmp_path / "run", end=end)
    (row,) = listed(tmp_path, capsys)
    assert " ".join(row).endswith(shown)


def test_what_runs_and_what_is_damaged(tmp_path, capsys):
    run_folders.write_run(tmp_path / "fine", origin=None, metrics=[])
    run_folders.write_run(tmp_path / "damaged")
    (tmp_path / "damaged" / "config.json").write_text("{")
    (tmp_path / "no run").mkdir()
    (tmp_path / "without" / "checkpoints" / "9").mkdir(parents=True)
    with lock(tmp_path / "fine"):
        one, other, without = sorted(listed(tmp_path, capsys))
    assert one[:2] == ["damaged", "unreadable:"]
    assert without[:2] == ["without", "unreadable:"] and " ".join(without).endswith("its checkpoints has a copy")
    assert other == ["fine", "anakin", "running"]


def test_a_folder_without_runs_is_named(tmp_path):
    with pytest.raises(BadInput, match="holds no runs"):
        tool.runs(tmp_path)
    (tmp_path / "config.json").touch()
    with pytest.raises(BadInput, match="is a run's own folder; see `boonta status"):
        tool.runs(tmp_path)


def test_rows_are_read_one_by_one(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(metrics, "read", None)  # The rows of a week are gigabytes at once.
    run_folders.write_run(tmp_path / "run")
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "config.json").write_text((tmp_path / "run" / "config.json").read_text())
    begun, run = sorted(listed(tmp_path, capsys))
    assert begun[0] == "begun" and run[4:6] == ["300", "3"]
