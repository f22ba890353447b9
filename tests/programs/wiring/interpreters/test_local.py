"""The environment of each group's processes: who may take an accelerator."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import types

import pytest

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
from boonta.programs.wiring.interpreters import launchpad, local  # noqa: E402
from boonta.programs.wiring.machine import accelerators  # noqa: E402
from boonta.programs.wiring.machine.accelerators import VISIBLE  # noqa: E402
from boonta.programs.wiring.machine.division import FRACTION  # noqa: E402
from boonta.programs.wiring.run import BadInput, Run  # noqa: E402
from boonta.tests.helpers import machines  # noqa: E402
from boonta.tests.helpers.deadline import DEADLINE_S  # noqa: E402
from boonta.tests.helpers.roles_program import roles_program  # noqa: E402
from boonta.tests.helpers.running import Running  # noqa: E402

PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
ON_CPU = {"monitor", "variables", "actor/0", "evaluator", "reanalyzer/0"}  # On any machine: inference nodes act for it.
SHARING = {"inference"}


def test_starts_within_a_second_have_logs_of_their_own_in_order(tmp_path, monkeypatch):
    def launch(program, environment, logs, sockets):
        folders.append(logs)
        raise InterruptedError

    folders: list[pathlib.Path] = []
    monkeypatch.setattr(launchpad, "launch", launch)
    monkeypatch.setattr(local, "Signals", lambda: None)
    for _ in range(3):
        with pytest.raises(InterruptedError):
            local._run(types.SimpleNamespace(run=Run(workdir=str(tmp_path))), {})
    assert folders == sorted(set(folders)) == sorted((tmp_path / "logs").iterdir())
    assert all(folder.name.endswith("Z") for folder in folders)


def started(folder: pathlib.Path, machine: pathlib.Path, monkeypatch, *flags: str) -> Running:
    """A program of many roles that runs on a machine."""
    monkeypatch.delenv("JAX_PLATFORMS")
    monkeypatch.delenv(VISIBLE, raising=False)
    program = "tests/helpers/roles_program.py"
    return Running(folder, program, "--machine", str(machine), "--network", "open", *flags)


def environments_of(running: Running) -> dict[str, dict[str, str]]:
    """By node, the environment variables of its process."""

    def found() -> dict[str, dict[str, str]]:
        files = {node: pathlib.Path(f"/proc/{pid}/environ") for node, pid in running.pids.items()}
        words = {node: file.read_text().split("\0") for node, file in files.items()}
        return {node: dict(word.split("=", 1) for word in words[node] if "=" in word) for node in words}

    def begun() -> bool:
        """Until a process has become its program, it has its launcher's words and variables, or none."""
        words = [
            pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in [running.process.pid, *running.pids.values()]
        ]
        return len(words) > 1 and all(words) and words[0] not in words[1:]

    running.wait_until(begun, "launched")
    return found()


def environments(folder: pathlib.Path, machine: pathlib.Path, monkeypatch, *flags: str) -> dict[str, dict[str, str]]:
    """By node, the environment variables with which its process runs on a machine."""
    with started(folder, machine, monkeypatch, *flags) as running:
        return environments_of(running)


def test_on_gpus_the_learner_shares_with_nodes_that_take_no_more_than_they_need(tmp_path, monkeypatch):
    machines.add_gpus(tmp_path / "machine", "NVIDIA L4")
    found = environments(tmp_path, tmp_path / "machine", monkeypatch)
    assert found.keys() == {"learner", *ON_CPU, *SHARING}
    assert all(found[node]["JAX_PLATFORMS"] == "cpu" for node in ON_CPU)
    assert all("JAX_PLATFORMS" not in found[node] for node in ("learner", *SHARING))
    assert {node for node, variables in found.items() if variables.get(PREALLOCATE) == "false"} == SHARING
    assert all("multi_thread_eigen=false" in found[node]["XLA_FLAGS"] for node in ON_CPU)


def test_each_node_of_a_group_sees_its_own_gpu_also_after_it_has_died(tmp_path, monkeypatch):
    machines.add_gpus(tmp_path / "machine", *["NVIDIA L4"] * 3)
    flags = ("--evaluators", "2", "--gpus", "evaluator=1", "learner=0.5")
    with started(tmp_path, tmp_path / "machine", monkeypatch, *flags) as running:
        found = environments_of(running)
        running.wait_until_it_works()
        dead = running.pids["evaluator/1"]
        os.kill(dead, signal.SIGKILL)
        running.wait_until(lambda: running.pids["evaluator/1"] != dead, "started again")
        again = environments_of(running)["evaluator/1"]
    assert {node: variables[VISIBLE] for node, variables in found.items() if VISIBLE in variables} == {
        "evaluator/0": "0", "evaluator/1": "1", "learner": "2", "inference": "2"
    }  # fmt: skip
    assert (found["learner"][FRACTION], found["inference"][FRACTION]) == ("0.5", "0.375")
    given = {node for node, variables in found.items() if variables.get("JAX_PLATFORMS") == "cuda,cpu"}
    assert given == {"learner", "evaluator/0", "evaluator/1"}
    assert again.pop("BOONTA_PAST_LIVES") == "1" and again == found["evaluator/1"]


def test_gpus_that_a_machine_does_not_have_are_refused_before_anything_starts(tmp_path, monkeypatch):
    machines.add_gpus(tmp_path / "machine", "NVIDIA L4")
    with started(tmp_path, tmp_path / "machine", monkeypatch, "--gpus", "evaluator=2") as running:
        printed = running.finish(2)
    assert "evaluator asks for 2 GPUs, for which this machine has no room: its nodes ask for 2 together" in printed
    assert not running.workdir.exists()


def test_threads_of_one_process_divide_no_gpus(tmp_path, monkeypatch):
    """A program that gives a group a GPU runs as threads, too."""
    monkeypatch.setattr(accelerators, "ROOT", tmp_path)
    made = roles_program(Run(launch="local_mt", workdir=str(tmp_path)), str(tmp_path))
    groups = [dataclasses.replace(group, gpus=1) if group.label == "learner" else group for group in made.groups]
    local.prepare(dataclasses.replace(made, groups=groups))
    with pytest.raises(BadInput, match="learner asks for 1 GPU"):
        local.prepare(dataclasses.replace(made, groups=groups, run=Run(workdir=str(tmp_path))))


def test_a_tpu_is_the_learners_alone_unless_the_user_says_otherwise(tmp_path, monkeypatch):
    machines.add_tpus(tmp_path / "machine", 4)
    flags = ("--process-env", "inference:JAX_PLATFORMS=tpu")
    found = environments(tmp_path, tmp_path / "machine", monkeypatch, *flags)
    assert "JAX_PLATFORMS" not in found["learner"]
    assert found["inference"]["JAX_PLATFORMS"] == "tpu"
    assert all(found[node]["JAX_PLATFORMS"] == "cpu" for node in ON_CPU)


def test_the_launcher_takes_no_accelerator():
    """It would start JAX on one that isn't there, and fail."""
    code = (
        "from boonta.programs.reanalyze import reanalyze\n"
        "from boonta.programs.wiring import launch\n"
        "from boonta.programs.wiring.command_line.arguments import parse\n"
        "run, settings = parse(reanalyze, ['catch'])\n"
        "launch.prepare(reanalyze(run=run, **settings))\n"
    )
    command = [sys.executable, "-c", f"import os\nos.environ['JAX_PLATFORMS'] = 'absent'\n{code}"]
    subprocess.run(command, check=True, timeout=DEADLINE_S)


def test_nodes_find_the_modules_that_their_users_have_added(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "theirs")
    found = local.with_common({"learner": {}, "actor": {"X": "mine", "PYTHONPATH": "own"}})
    assert found["actor"]["X"] == "mine"
    assert [found[label]["PYTHONPATH"].split(":")[-1] for label in found] == ["theirs", "own"]
