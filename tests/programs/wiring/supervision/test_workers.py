"""Nodes' processes: how they died, and what they wrote last."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from boonta.envs.names import ROOT
from boonta.programs.wiring.supervision import workers
from boonta.tests.helpers.launched import LIGHT
from boonta.tests.helpers.running import Running


@pytest.mark.parametrize(
    ("code", "death"),
    [("", ""), ("exit(3)", "exited with code 3"), ("os.kill(os.getpid(), 9)", "was killed by SIGKILL")],
)
def test_how_a_process_died(code, death):
    process = subprocess.Popen([sys.executable, "-c", f"import os; {code}"])
    process.wait()
    assert workers.Process("learner", process).death() == death


@pytest.mark.parametrize(("first", "order"), [(ROOT / "programs", [1, 0]), (pathlib.Path("/mine"), [0, 1])])
def test_nodes_find_modules_beside_the_script_but_boontas_packages_hide_none_of_the_users(monkeypatch, first, order):
    monkeypatch.setattr(sys, "path", [str(first), *sys.path])
    folders = [str(first), os.getcwd()]
    assert workers.import_path("/usual").split(os.pathsep) == [*(folders[i] for i in order), "/usual"]


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_what_we_ended_did_not_die(end):
    worker = workers.Process("learner", subprocess.Popen(["sleep", "60"]))
    getattr(worker, end)()
    worker._process.wait()
    assert worker.death() == ""


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "Traceback:\n  import x\nModuleNotFoundError: No module named 'x'\nthe launcher ends\n",
            "ModuleNotFoundError: N",
        ),
        ("no traceback\n\n", "no traceback"),
        ("", ""),
        (None, ""),
    ],
)
def test_the_last_words_are_the_exception(tmp_path, log, words):
    if log is not None:
        (tmp_path / "log").write_text(log)
    worker = workers.Process("learner", subprocess.Popen(["true"]), log=tmp_path / "log")
    assert worker.last_words().startswith(words) and bool(worker.last_words()) == bool(words)


@pytest.mark.cluster
def test_a_node_that_can_not_be_made_in_its_process_says_why(tmp_path):
    with Running(tmp_path, LIGHT, "--refuses", "--restarts.number", "0") as running:
        printed = running.finish(1)
    assert "actor/0 exited with code 1 while starting: LookupError: there is no robot here" in printed
