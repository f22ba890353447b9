"""The processes that send to trackers: what a launcher does with them."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import time
import urllib.error
import urllib.request

import pytest

from boonta.programs.impala import impala
from boonta.programs.wiring import launch
from boonta.programs.wiring.run import Run
from boonta.programs.wiring.run_folder.journal import LOG
from boonta.programs.wiring.supervision.trackers import STARTED, Trackers
from boonta.tests.helpers import run_folders
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.sinks import taken, write_rows

OWN = "boonta.tests.helpers.sinks"


def run_in(folder, *log: str) -> Run:
    return Run(workdir=str(folder), log=log)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Has the launcher wait longer for trackers that still import when the run has ended, as on a busy machine."""
    monkeypatch.setattr("boonta.programs.wiring.supervision.trackers.END_S", 120.0)


@pytest.fixture
def logged():
    """What the logger of whole runs shows: levels and lines."""
    found: list[tuple[str, str]] = []

    class Keep(logging.Handler):
        def emit(self, record):
            found.append((record.levelname, record.getMessage()))

    handler = Keep(logging.INFO)
    LOG.addHandler(handler)
    yield found
    LOG.removeHandler(handler)


def test_rows_written_until_the_end_are_sent(tmp_path, logged):
    trackers = Trackers()
    trackers.start(run_in(tmp_path, "tensorboard", f"{OWN}:Recording"))
    with trackers:
        write_rows(tmp_path, {"i": 0.0}, {"i": 1.0})
    assert taken(tmp_path, "row") == [[{"i": 0.0}], [{"i": 1.0}]] and not logged


def test_they_outlive_the_command_that_the_process_becomes(tmp_path):
    """That command finds them in its environment, and starts no others."""
    first, second = Trackers(), Trackers()
    run = run_in(tmp_path, f"{OWN}:Recording")
    first.start(run)
    with first.kept():
        second.start(run)
        assert second._processes == first._processes and len(second._processes) == 1
    assert STARTED not in os.environ
    with second:
        write_rows(tmp_path, {"i": 0.0})
    assert len(taken(tmp_path, "begin")) == len(taken(tmp_path, "row")) == 1


def test_one_that_crashes_is_named_and_the_other_goes_on(tmp_path, logged):
    write_rows(tmp_path, {"i": 0.0})
    trackers = Trackers()
    trackers.start(run_in(tmp_path, f"{OWN}:Crashing", f"{OWN}:Recording"))
    with trackers:
        next(iter(trackers._readers.values())).join(120)
    assert logged == [("WARNING", f"{OWN}:Crashing: its process has ended, see trackers/ in the run's folder")]
    assert taken(tmp_path, "row") == [[{"i": 0.0}]]


@pytest.mark.once
def test_a_dashboard_shows_the_run_until_its_end(tmp_path, logged):
    folder = run_folders.write_run(tmp_path / "run", end=["INFO done: updates reached 3"])
    trackers = Trackers()
    trackers.start(Run(workdir=str(folder), log=(), dashboard=True))
    with trackers:
        deadline = time.monotonic() + 120
        while not logged and time.monotonic() < deadline:
            time.sleep(0.05)
        level, line = logged[0]
        address = re.fullmatch(r"dashboard: (http://127\.0\.0\.1:\d+/\S+/)", line).group(1)  # type: ignore[union-attr]
        assert level == "INFO"
        with urllib.request.urlopen(f"{address}status", timeout=DEADLINE_S) as answer:
            assert json.load(answer)["end"] == "done: updates reached 3"
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(address, timeout=DEADLINE_S)
    assert len(logged) == 1


def test_without_a_tracker_there_is_no_process(tmp_path):
    trackers = Trackers()
    trackers.start(run_in(tmp_path, "tensorboard"))
    with trackers, trackers.kept():
        assert not trackers._processes and STARTED not in os.environ


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wandbb", "error: --log 'wandbb' is unknown: did you mean 'wandb'?"),
        ("wandb", "error: --log wandb: the package wandb is missing: pip install 'boonta-rl[wandb]'"),
        ("no_such_module:Sink", "error: --log no_such_module:Sink: module 'no_such_module' can't be imported"),
    ],
)
def test_what_can_not_work_is_refused_before_anything_is_made(tmp_path, capsys, monkeypatch, name, message):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None if package == "wandb" else find(package))
    with pytest.raises(SystemExit, match="2"):
        launch.main(impala, ["catch", "--workdir", str(tmp_path / "run"), "--log", name])
    assert message in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_tracker_whose_run_is_refused_is_ended(tmp_path, capsys, monkeypatch):
    ended = []
    end = Trackers.end
    monkeypatch.setattr(Trackers, "end", lambda self: (ended.extend(self._processes), end(self)))
    with pytest.raises(SystemExit, match="2"):
        launch.main(
            impala, ["catch", "--start-from", str(tmp_path), "--log", f"{OWN}:Recording", "--launch", "sebulba"]
        )
    assert "has no newest checkpoint" in capsys.readouterr().err
    with pytest.raises(ChildProcessError):
        os.waitpid(ended[0].pid, os.WNOHANG)
