"""Whole programs as real processes: how they run, resume, are stopped, and fail."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from boonta.nodes import metrics
from boonta.nodes.snapshots.store import numbers
from boonta.programs.tools.status import status
from boonta.programs.wiring.run_folder.state import is_held
from boonta.programs.wiring.run_folder.temporary import OWNER, kept_in
from boonta.tests.helpers.damage import flip
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.launched import LIGHT, TINY, finish, pids, running, start, wait_for_rows
from boonta.tests.helpers.runs import saved

pytestmark = pytest.mark.cluster
ENDS_S = 100.0  # It is below `pulse.MONITOR_DEADLINE_S`, after which nodes end even if nobody asks them to.


def require_ended(workdir: pathlib.Path) -> None:
    """Fails if nodes still run some time after their launcher was killed."""
    deadline = time.monotonic() + ENDS_S
    while running(workdir) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running(workdir) == []


def saved_counts(workdir: pathlib.Path, row: dict[str, float]) -> dict[str, float]:
    """The counters in the checkpoint of the update that a row is of."""
    return json.loads((workdir / "checkpoints" / str(int(row["updates"])) / "counts" / "metadata").read_text())


def test_processes_learn_until_the_rule_and_later_starts_resume_and_are_ended(tmp_path):
    """By a stop rule, by SIGTERM, and by Ctrl-C after a start that had to pass over a damaged snapshot."""
    process = start("--workdir", str(tmp_path), "--stop.updates", "100")
    output = finish(process)
    assert process.returncode == 0, output
    assert "done: updates reached" in output
    assert running(tmp_path) == []
    assert set(pids(tmp_path)) == {"monitor", "variables", "replay", "learner", "actor/0", "evaluator"}
    first = metrics.read(tmp_path)[-1]
    assert first["updates"] >= 100 and first["env_steps"] >= 100 * 8 * 4
    assert json.loads((tmp_path / "config.json").read_text())["settings"]["width"] == 8
    assert list(tmp_path.glob("tensorboard/*")) and list(tmp_path.glob("logs/*/learner/0"))

    before = saved_counts(tmp_path, first)  # They may be a heartbeat older than the last row.
    process = start("--workdir", str(tmp_path))
    wait_for_rows(tmp_path, process, int(first["updates"]) + 50)
    end_by_signal(process, signal.SIGTERM, tmp_path)
    resumed = metrics.read(tmp_path)[-1]
    assert resumed["seconds"] > before["seconds"] and resumed["env_steps"] > before["env_steps"]
    assert saved_counts(tmp_path, resumed)["updates"] == resumed["updates"]

    older, newer = int(first["updates"]), int(resumed["updates"])
    assert numbers(tmp_path / "checkpoints") == numbers(tmp_path / "replay") == [older, newer]
    flip(tmp_path / "replay" / str(newer) / "tables.tfrecord")
    process = start("--workdir", str(tmp_path))
    wait_for_rows(tmp_path, process, newer + 1)
    output = end_by_signal(process, signal.SIGINT, tmp_path)
    assert f"warning: learner: checkpoint {older} is used, since newer ones are not sound" in output
    assert "warning: replay" not in output and saved(tmp_path) > newer


def end_by_signal(process: subprocess.Popen, number: int, workdir: pathlib.Path) -> str:
    """Every process ends without being killed, the learner and the replay saved; returns what it has printed."""
    os.killpg(process.pid, number)  # A terminal does the same, and so does `timeout`.
    output = finish(process)
    assert process.returncode == 128 + number, output
    assert f"ended by {signal.Signals(number).name}" in output
    assert running(workdir) == []
    assert saved(workdir) >= 1
    assert list(workdir.glob("replay/*/DONE"))
    return output


@pytest.mark.parametrize(
    ("program", "victim"),
    [
        (LIGHT, "learner"),
        (LIGHT, "monitor"),
        pytest.param(LIGHT, "variables", marks=pytest.mark.slow),
        pytest.param(TINY, "replay", marks=pytest.mark.slow),
    ],
)
def test_without_restarts_a_killed_node_ends_the_program_by_name(tmp_path, program, victim):
    process = start("--workdir", str(tmp_path), "--restarts.number", "0", program=program)
    wait_for_rows(tmp_path, process)
    os.kill(pids(tmp_path)[victim], signal.SIGKILL)
    output = finish(process, timeout_s=ENDS_S)
    assert process.returncode == 1, output
    assert f"error: {victim} was killed by SIGKILL while " in output
    assert running(tmp_path) == []


def test_no_orphans_and_no_temporary_files_are_left_when_the_launcher_is_killed(tmp_path, monkeypatch, capsys):
    """The run's folder explains afterwards what happened."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    process = start("--workdir", str(tmp_path))
    wait_for_rows(tmp_path, process)
    learner = pids(tmp_path)["learner"]
    os.kill(learner, signal.SIGSTOP)  # It is yet to save.
    process.kill()
    process.wait()
    assert is_held(tmp_path)
    os.kill(learner, signal.SIGCONT)
    require_ended(tmp_path)
    assert not is_held(tmp_path) and not list(temporary.iterdir())
    places = [path for place in ("tmp", "tmp/elsewhere") for path in tmp_path.glob(f"{place}/*")]
    left = [path.resolve() for path in places if path.name != OWNER]  # That one leads to the run's own folder.
    assert any((path / "job.pkl").exists() for path in left)
    status(tmp_path)
    printed = capsys.readouterr().out
    assert "\nit was cut off: its launcher was killed, or the machine went down\n" in printed
    assert "\nit would go on from checkpoints/" in printed
    with kept_in(tmp_path):  # The next start removes them, and the sockets.
        assert not [path for path in left if path.exists()]


# Python imports this module before all others: a node's process waits in it until its launcher is gone.
IMPORTS_SLOWLY = """
import os, pathlib, sys, time
if "--lp_task_id" in sys.orig_argv:
    launcher = os.getppid()
    pathlib.Path(f"{__file__}.{os.getpid()}").touch()
    while os.getppid() == launcher:
        time.sleep(0.05)
"""


def test_nodes_whose_launcher_is_killed_while_they_import_end_too(tmp_path, monkeypatch):
    module = tmp_path / "slow" / "sitecustomize.py"
    module.parent.mkdir()
    module.write_text(IMPORTS_SLOWLY)
    monkeypatch.setenv("PYTHONPATH", str(module.parent), prepend=os.pathsep)
    process = start("--workdir", str(tmp_path), program=LIGHT)
    deadline = time.monotonic() + DEADLINE_S
    while not (nodes := list(tmp_path.glob("logs/*/pids.json")) and pids(tmp_path).values()) or not all(
        module.with_name(f"{module.name}.{pid}").exists() for pid in nodes
    ):
        assert time.monotonic() < deadline and process.poll() is None, finish(process)
        time.sleep(0.1)
    process.kill()
    process.wait()
    require_ended(tmp_path)


def test_a_raising_node_ends_the_program_with_activity_and_cause(tmp_path):
    process = start("--workdir", str(tmp_path), "--breaks-after", "50", "--launch", "local_mt")
    output = finish(process)
    assert process.returncode == 1, output
    assert "error: actor/0 failed while stepping environments: RuntimeError: the simulator is broken" in output, output


def test_a_failure_while_ending_is_told(tmp_path):
    """The learner can't save its last checkpoint, since something else stands where the checkpoints were."""
    process = start("--workdir", str(tmp_path), "--launch", "local_mt")
    wait_for_rows(tmp_path, process)
    (tmp_path / "checkpoints").rmdir()
    (tmp_path / "checkpoints").write_text("")
    process.send_signal(signal.SIGTERM)
    output = finish(process, timeout_s=ENDS_S)
    assert process.returncode == 1, output
    assert "error: learner failed while saving a checkpoint: OSError: checkpoint " in output, output


@pytest.mark.slow
def test_the_end_waits_for_tables_that_take_long_to_save(tmp_path):
    process = start("--workdir", str(tmp_path), "--stop.updates", "50", "--save-takes-s", "40")
    output = finish(process)
    assert process.returncode == 0, output
    assert "the end waits for replay to save, at most 600 s" in output
    (number,) = numbers(tmp_path / "replay")
    assert number == saved(tmp_path)


@pytest.mark.parametrize("program", ["impala", pytest.param("muzero", marks=pytest.mark.slow)])
def test_learns_catch_as_processes(tmp_path, program):
    """An agent that empties a queue, and one that samples a replay table."""
    arguments = ["--workdir", str(tmp_path), "--stop.eval-return", "0.5", "--stop.seconds", "400"]  # By chance: -0.6.
    process = start(*arguments, program=f"programs/{program}.py")
    output = finish(process)
    assert process.returncode == 0, output
    assert "done: eval_return reached" in output
