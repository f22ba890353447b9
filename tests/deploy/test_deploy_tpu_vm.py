"""Machines reached by SSH; a script that runs the command here replaces `ssh`."""

from __future__ import annotations

import pathlib
import shlex
import subprocess
import sys
import types

import pytest

from boonta.deploy import core, tpu_vm
from boonta.nodes import metrics
from boonta.nodes.rpc import keys
from boonta.nodes.watch.program_end import SAVING_S
from boonta.programs.wiring.run import BadInput, newest_checkpoint
from boonta.tests.helpers import ssh
from boonta.tests.helpers.apart import Apart, free_ports
from boonta.tests.helpers.deadline import DEADLINE_S

LIGHT = pathlib.Path(__file__).parents[1] / "helpers" / "light_program.py"
ROOT = pathlib.Path(__file__).parents[2]


def node_of(command: list[str]) -> list[str]:
    """The words that the remote shell runs."""
    return shlex.split(command[-1])


@pytest.fixture(autouse=True)
def usual_accelerator(monkeypatch):
    for name in ("BOONTA_JAX", "BOONTA_PYTHON"):
        monkeypatch.delenv(name, raising=False)


def test_the_learner_has_its_machine_for_itself_and_the_others_share_the_rest():
    machines = tpu_vm.Machines(LIGHT, "a,b,c", learner_host="b", root=pathlib.Path("/home/me/my boonta"))
    found = tpu_vm.prepare(machines, ["--actors", "3", "--process-env", "actor:X=a b"]).commands
    assert {name: command[-2] for name, command in found.items()} == {
        "monitor": "a", "variables": "c", "learner": "b", "actor/0": "a", "actor/1": "c", "actor/2": "a"
    }  # fmt: skip
    words = node_of(found["actor/1"])
    assert words[:4] == ["cd", "/home/me/my boonta", "&&", "exec"]
    assert words[words.index("--hosts") + 1] == "a,c,b,a,c,a"  # One host for each node, in program order.
    assert words[words.index("--") + 1 :] == ["--actors", "3", "--process-env", "actor:X=a b"]


def test_the_machines_use_the_accelerator_that_is_asked_for_here(monkeypatch):
    monkeypatch.setenv("BOONTA_JAX", "tpu")
    monkeypatch.setenv("BOONTA_PYTHON", "3.13")
    words = node_of(tpu_vm.prepare(tpu_vm.Machines(LIGHT, "a"), []).commands["learner"])
    assert words[3:7] == ["exec", "env", "BOONTA_CONNECTED=1", "BOONTA_JAX=tpu"]
    assert words[7] == "BOONTA_PYTHON=3.13" and words[9:11] == ["./run", "python"]


def test_modules_of_ones_own_are_found_where_the_command_was_given(tmp_path, tmp_path_factory, monkeypatch):
    (tmp_path / "run").write_text('#!/bin/sh\nprintf %s "$PYTHONPATH"\n')
    (tmp_path / "run").chmod(0o755)
    mine = tmp_path_factory.mktemp("my modules")
    monkeypatch.chdir(mine)
    monkeypatch.setenv("PYTHONPATH", "/also")
    command = tpu_vm.prepare(tpu_vm.Machines(LIGHT, "a", root=tmp_path), []).commands["learner"][-1]
    assert subprocess.run(["sh", "-c", command], capture_output=True, text=True).stdout == f"{mine}:/also"


def test_one_machine_has_them_all():
    found = tpu_vm.prepare(tpu_vm.Machines(LIGHT, "a"), []).commands
    assert {command[-2] for command in found.values()} == {"a"}


def test_a_program_of_threads_runs_whole_on_every_machine():
    unit = ROOT / "tests" / "helpers" / "unit_program.py"
    found = tpu_vm.prepare(tpu_vm.Machines(unit, "a,b"), ["--seed", "2"]).commands
    assert {name: command[-2] for name, command in found.items()} == {"unit/0": "a", "unit/1": "b"}
    places = ["--hosts.coordinator", "a:20000", "--hosts.number", "2", "--hosts.index", "1"]
    assert node_of(found["unit/1"])[7:] == ["./run", "python", "tests/helpers/unit_program.py", "--seed", "2", *places]
    alone = tpu_vm.prepare(tpu_vm.Machines(unit, "a"), []).commands
    assert node_of(alone["unit/0"])[7:] == ["./run", "python", "tests/helpers/unit_program.py"]


@pytest.mark.parametrize(
    ("machines", "message"),
    [
        ({"hosts": "a,,b"}, "must be host names"),
        ({"hosts": "a,b,a"}, "--hosts has 'a' twice"),
        ({"hosts": "a,b", "learner_host": "c"}, "'c' is none of --hosts a,b"),
    ],
)
def test_machines_that_are_none_are_refused(machines, message):
    with pytest.raises(BadInput, match=message):
        tpu_vm.prepare(tpu_vm.Machines(LIGHT, **machines), [])


def test_what_cannot_run_on_the_machines_is_refused_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=f"--start-from is 'runs/old'; .* from here {tmp_path}/runs/old"):
        tpu_vm.prepare(tpu_vm.Machines(LIGHT, "a"), ["--start-from", "runs/old"])
    monkeypatch.setattr(tpu_vm, "ROOT", tmp_path)  # As of an installed package.
    with pytest.raises(BadInput, match=f"{tmp_path} has no ./run, .* give --root, a clone"):
        tpu_vm.prepare(tpu_vm.Machines(LIGHT, "a", root=tmp_path), [])


@pytest.mark.cluster
def test_a_program_runs_over_connections_and_its_end_is_reported(tmp_path, monkeypatch):
    ssh.stand_in(tmp_path, monkeypatch)
    machines = tpu_vm.Machines(LIGHT, "127.0.0.1,127.0.0.2", root=tmp_path, base_port=free_ports())
    flags = ["--workdir", str(tmp_path / "run folder"), "--stop.updates", "60"]
    assert tpu_vm.run(tpu_vm.prepare(machines, flags)) == 0
    assert metrics.read(tmp_path / "run folder")[-1]["updates"] >= 60


def connect(apart: Apart, machines: tpu_vm.Machines, *flags: str) -> None:
    key = keys.new()
    for name, command in tpu_vm.prepare(machines, flags).commands.items():
        apart.processes[name] = tpu_vm._start(name, command, key)


def disconnected(apart: Apart) -> set[int]:
    """The exit codes of nodes whose connections end, and which get no signal."""
    for process in apart.processes.values():
        process.stdin.close()
    return {process.wait(120) for process in apart.processes.values()}


class Hanging:
    """A process that never ends by itself."""

    returncode = None

    def poll(self) -> None:
        """It runs."""


@pytest.fixture
def clock(monkeypatch):
    """The time, in a list, which goes on only while the module sleeps."""
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(tpu_vm, "time", types.SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    return now


def ended(*command: str) -> subprocess.Popen:
    process = subprocess.Popen(command)
    process.wait(DEADLINE_S)
    return process


def test_all_nodes_that_hang_have_one_deadline_once_a_node_has_ended(clock):
    hanging = {f"actor/{i}": Hanging() for i in range(6)}
    left, codes = {**hanging, "learner": ended("true")}, []
    tpu_vm._wait(left, list(hanging), codes)
    assert clock == [100.0 + core.END_S] and left == hanging and codes == [0]


def test_a_run_that_the_monitor_refuses_ends_within_seconds(clock):
    hanging = {"learner": Hanging(), "actor/0": Hanging()}
    left, codes = {**hanging, "monitor": ended("sh", "-c", "exit 2")}, []
    tpu_vm._wait(left, ["actor/0"], codes)
    assert clock == [100.0 + tpu_vm.REFUSED_S] and left == hanging and codes == [2]


@pytest.mark.parametrize(("before", "code"), [([], 130), ([0], 130), ([9], 9)])
def test_an_interrupt_is_told_in_one_line_and_is_no_bad_end_of_each_node(monkeypatch, capsys, before, code):
    def interrupted(left, dispensable, codes):
        codes += before
        raise KeyboardInterrupt

    monkeypatch.setattr(tpu_vm, "_wait", interrupted)
    assert tpu_vm.run(tpu_vm.Nodes({"learner": ["sleep", "60"], "actor/0": ["sleep", "60"]}, ["actor/0"])) == code
    assert capsys.readouterr().err == "interrupted: the nodes are asked to save and to end\n"


def test_the_others_have_the_time_that_saves_may_take():
    assert core.END_S > SAVING_S


def test_an_actor_that_dies_is_named_at_once_and_the_run_goes_on_without_it(clock, capsys):
    class Learner(Hanging):
        """It ends long after the actor."""

        def poll(self) -> int | None:
            if clock[0] > 100.0 + 10 * core.END_S:
                self.returncode = 0
            elif clock[0] > 100.0:
                seen.append(capsys.readouterr().err)
            return self.returncode

    seen: list[str] = []
    left, codes = {"learner": Learner(), "actor/3": ended("sh", "-c", "exit 9")}, []
    tpu_vm._wait(left, ["actor/3"], codes)
    assert clock[0] > 100.0 + 10 * core.END_S and not left
    assert seen[0] == "actor/3 ended with code 9\n" and codes == [0]


@pytest.mark.parametrize(
    ("code", "dispensable", "result"), [(9, ["actor/0"], 0), (9, [], 9), (2, ["actor/0"], 2), (0, ["actor/0"], 0)]
)
def test_the_run_fails_by_what_the_program_needs_and_by_bad_input(code, dispensable, result):
    commands = {"learner": ["true"], "actor/0": ["sh", "-c", f"exit {code}"]}
    assert tpu_vm.run(tpu_vm.Nodes(commands, dispensable)) == result


def test_the_nodes_without_which_a_program_goes_on_are_known():
    assert tpu_vm.prepare(tpu_vm.Machines(LIGHT, "a"), ["--actors", "2"]).dispensable == ["actor/0", "actor/1"]
    unit = ROOT / "tests" / "helpers" / "unit_program.py"
    assert tpu_vm.prepare(tpu_vm.Machines(unit, "a"), []).dispensable == []


@pytest.mark.cluster
def test_nodes_end_with_their_connections(tmp_path, monkeypatch):
    ssh.stand_in(tmp_path, monkeypatch)
    run = tmp_path / "run folder"
    with Apart(str(LIGHT)) as apart:
        machines = tpu_vm.Machines(LIGHT, "127.0.0.1", root=tmp_path, base_port=apart.port)
        connect(apart, machines, "--workdir", str(run))
        apart.wait_for(run, "env_steps", 1)
        assert disconnected(apart) == {143}


@pytest.mark.once
def test_a_unit_saves_at_the_end_of_its_connection(tmp_path, monkeypatch):
    ssh.stand_in(tmp_path, monkeypatch)
    unit, run = ROOT / "tests" / "helpers" / "unit_program.py", tmp_path / "run folder"
    with Apart(str(unit)) as apart:
        connect(apart, tpu_vm.Machines(unit, "127.0.0.1", root=tmp_path), "--workdir", str(run))
        apart.wait_for(run, "updates", 1)
        assert disconnected(apart) == {143}
    (end,) = run.glob("end-*.npy")
    assert newest_checkpoint(run / "checkpoints") == int(end.stem.removeprefix("end-"))


def test_nodes_go_on_where_nobody_reads_what_they_print():
    script = (
        "import sys\nfrom boonta.deploy import tpu_vm\nNODES = {'a': ['sh', '-c', 'seq 99999; exit 7']}\n"
        "sys.exit(tpu_vm.run(tpu_vm.Nodes(NODES)))"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with process:
        process.stdout.close()
        assert process.wait(60) == 7
