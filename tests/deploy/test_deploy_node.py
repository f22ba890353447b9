"""Nodes started separately, each by its own command: how they run, end, restart and fail."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys

import psutil
import pytest

from boonta.nodes import metrics
from boonta.nodes.rpc import keys
from boonta.programs.experiments.outcome import is_done
from boonta.programs.experiments.plan import Job
from boonta.programs.experiments.spec import Entry
from boonta.programs.wiring.run_folder import journal
from boonta.programs.wiring.run_folder.state import sentence_of
from boonta.tests.helpers import sinks
from boonta.tests.helpers.apart import LIGHT, ROOT, Apart
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.launched import LIMIT, ends_with

pytestmark = pytest.mark.cluster
ALL = ("monitor", "variables", "learner", "actor")


def test_a_program_learns_and_ends_clean_with_every_node_started_by_its_own_command(tmp_path):
    job = Job("run", (Entry("run", "tests/helpers/tiny_program.py", "", 0, {"stop.updates": 300}, {}),))
    flags = job.command(tmp_path)[1:]
    with Apart("tests/helpers/tiny_program.py", *flags, tunnel=True) as apart:
        for label in ("evaluator", "actor", "learner", "replay", "variables", "monitor"):  # Any order works.
            apart.start(label)
        apart.wait_for(tmp_path, "updates", 5, 420)
        require_key_for_tables(psutil.Process(apart.processes["replay/0"].pid))
        codes, outputs = apart.finish(420)
    assert set(codes.values()) == {0}, outputs
    assert metrics.read(tmp_path)[-1]["updates"] >= 300
    assert "monitor: done" in outputs["monitor/0"]
    assert sentence_of(tmp_path).startswith("it has ended: done: updates reached 3") and is_done(tmp_path, job)
    told, _, _ = outputs["monitor/0"].partition("run folder ")
    assert "network: the tables are open to whoever has the run's key, and to other users of the replay" in told
    assert (tmp_path / "config.json").exists() and list(tmp_path.glob("replay/*/DONE"))
    assert [path for path in (tmp_path / "checkpoints").iterdir() if path.name.isdigit()]


def require_key_for_tables(server: psutil.Process) -> None:
    """Asserts that only the tunnel's exit can be reached from elsewhere, and gives those without a key nothing."""
    listening = [one.laddr for one in server.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    (exit_port,) = (place.port for place in listening if place.ip in ("0.0.0.0", "::"))
    assert {place.ip for place in listening if place.port != exit_port} <= {"127.0.0.1", "::ffff:127.0.0.1"}
    with socket.create_connection(("127.0.0.1", exit_port), 60) as plain, contextlib.suppress(ConnectionError):
        plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")  # What gRPC says first.
        while answer := plain.recv(1 << 16):
            assert b"\0\0\0\4\0" not in answer  # It would answer with its settings.


def test_when_a_node_fails_no_exit_code_looks_like_success(tmp_path):
    with Apart(LIGHT, "--workdir", str(tmp_path), "--breaks-after", "20") as apart:
        for label in ("monitor", "variables", "learner"):
            apart.start(label)
        apart.wait_for(tmp_path, "updates", 0)
        apart.start("actor")
        codes, outputs = apart.finish()
    assert set(codes.values()) == {1}, outputs
    for output in outputs.values():
        assert "RuntimeError: the counter is broken" in output


def test_nodes_that_are_ended_or_killed_come_back_and_the_counters_go_on(tmp_path):
    """An actor, then the monitor. Each process has its group's environment, and all end with 0."""
    flags = ["--workdir", str(tmp_path), *ends_with(tmp_path / "end"), "--process-env", "learner:OMP_NUM_THREADS=3"]
    with Apart(LIGHT, *flags, "--log", "boonta.tests.helpers.sinks:Recording") as apart:
        for label in ALL:
            apart.start(label)
        before = apart.wait_for(tmp_path, "env_steps", 10)
        for number in (signal.SIGTERM, signal.SIGKILL):
            actor = apart.processes["actor/0"]
            actor.send_signal(number)
            assert actor.wait(60) == (143 if number == signal.SIGTERM else -9)
            apart.start("actor")
            before = apart.wait_for(tmp_path, "env_steps", before + 10)
        apart.processes["monitor/0"].kill()
        apart.processes["monitor/0"].wait()
        apart.start("monitor")
        apart.wait_for(tmp_path, "env_steps", before)
        (tmp_path / "end").touch()
        codes, outputs = apart.finish()
    assert set(codes.values()) == {0}, outputs
    starts = [line for line in journal.lines(tmp_path) if journal.since_start([line])]
    assert len(starts) == 2 and journal.last_code(tmp_path) == 0  # The monitor that was killed wrote no end.
    assert sentence_of(tmp_path).startswith("it has ended: done: env_steps reached ")
    last = metrics.read(tmp_path)[-1]
    assert (last["threads/actor/0"], last["threads/learner"]) == (1.0, 3.0)
    steps = [row["env_steps"] for row in metrics.read(tmp_path) if row.get("env_steps")]
    assert steps == sorted(steps) and steps[-1] >= LIMIT
    assert len({begun[0] for begun in sinks.taken(tmp_path, "begin")}) == 1  # For a tracker it is one run.
    sent = [row["env_steps"] for (row,) in sinks.taken(tmp_path, "row") if row.get("env_steps")]
    assert list(dict.fromkeys(sent)) == list(dict.fromkeys(steps))  # A kill may send a row twice.


def test_actors_that_never_come_or_leave_for_good_end_nothing_and_their_steps_count(tmp_path):
    """The program has four; one never comes, one leaves, one is killed."""
    with Apart(LIGHT, "--workdir", str(tmp_path), "--actors", "4", *ends_with(tmp_path / "end")) as apart:
        for label in ALL[:-1]:
            apart.start(label)
        actors = [apart.start("actor", index) for index in range(3)]
        before = apart.wait_for(tmp_path, "env_steps", 30)
        actors[1].send_signal(signal.SIGTERM)
        assert actors[1].wait(60) == 143
        actors[2].kill()
        apart.wait_for(tmp_path, "env_steps", before + 100)
        (tmp_path / "end").touch()
        codes, outputs = apart.finish()
    assert (codes.pop("actor/1"), codes.pop("actor/2")) == (143, -9)
    assert set(codes.values()) == {0}, outputs
    assert "  away actor/3 for " in outputs["monitor/0"] and "actor/1 for " in outputs["monitor/0"]
    steps = [row["env_steps"] for row in metrics.read(tmp_path) if row.get("env_steps")]
    assert steps == sorted(steps) and steps[-1] >= LIMIT


def test_an_actor_joins_nodes_that_were_started_apart_by_the_key_in_the_runs_folder(tmp_path):
    with Apart(LIGHT, "--workdir", str(tmp_path), "--stop.env-steps", "60") as apart:
        for label in ALL[:-1]:
            apart.start(label)
        apart.wait_for(tmp_path, "updates", 0)
        words = [sys.executable, "-m", "boonta", "join", str(tmp_path)]
        joined = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S)
        codes, outputs = apart.finish()
    assert joined.returncode == 0, joined
    assert not (tmp_path / "servers.json").exists()
    assert set(codes.values()) == {0}, outputs
    assert "actor/1: done" in joined.stdout and "  away actor/0 for " in outputs["monitor/0"]


@pytest.mark.parametrize("signalled", ["learner", "monitor"])
def test_a_node_asked_to_end_early_does_not_look_like_work_done(tmp_path, signalled):
    with Apart(LIGHT, "--workdir", str(tmp_path)) as apart:
        for label in ALL:
            apart.start(label)
        for counter in ("updates", "env_steps"):
            apart.wait_for(tmp_path, counter, 0)
        apart.processes[f"{signalled}/0"].send_signal(signal.SIGTERM)
        codes, outputs = apart.finish()
    assert journal.last_code(tmp_path) == codes["monitor/0"], outputs
    assert codes.pop(f"{signalled}/0") == 143, outputs
    assert set(codes.values()) == {1}, outputs
    told = {"monitor": "it was ended by SIGTERM", "learner": "it has ended: learner "}
    assert sentence_of(tmp_path).startswith(told[signalled])


def test_where_a_platform_starts_nodes_again_the_program_waits_for_a_server_that_is_asked_to_end(tmp_path):
    """As in a JobSet: the variable server's machine is drained, then the monitor's."""
    with Apart(LIGHT, "--workdir", str(tmp_path), *ends_with(tmp_path / "end"), starts_again=True) as apart:
        for label in ALL:
            apart.start(label)
        for counter in ("updates", "env_steps"):
            apart.wait_for(tmp_path, counter, 0)
        for label in ("variables", "monitor"):
            drained = apart.processes[f"{label}/0"]
            drained.send_signal(signal.SIGTERM)
            output, _ = drained.communicate(timeout=DEADLINE_S)
            assert drained.returncode == 143 and f"{label}: ended by signal 15" in output, output
            before = metrics.read(tmp_path)[-1]["updates"]
            apart.start(label)
            apart.wait_for(tmp_path, "updates", before + 3)
        (tmp_path / "end").touch()
        codes, outputs = apart.finish()
    assert set(codes.values()) == {0}, outputs
    updates = [row["updates"] for row in metrics.read(tmp_path) if row.get("updates")]
    assert updates == sorted(updates)


def test_nodes_of_another_build_are_refused_and_both_named(tmp_path):
    with Apart(LIGHT, "--workdir", str(tmp_path)) as apart:
        for label in ("monitor", "variables", "learner"):
            apart.start(label)
        apart.wait_for(tmp_path, "updates", 0)
        apart.start("actor", flags=("--breaks-after", "1000000"))
        codes, outputs = apart.finish()
    assert set(codes.values()) == {1}, outputs
    assert "actor/0 is program light_program" in outputs["monitor/0"]
    assert "but the monitor is program light_program" in outputs["monitor/0"]


def test_a_server_that_is_not_there_is_named(tmp_path):
    with Apart(LIGHT, "--workdir", str(tmp_path)) as apart:
        apart.start("actor", reach_s=1)
        codes, outputs = apart.finish()
    assert codes == {"actor/0": 1}
    assert f"error: actor/0 could not reach 127.0.0.1:{apart.port} in 1 s: " in outputs["actor/0"]


@pytest.mark.parametrize(
    ("label", "flags", "message"),
    [
        ("actors", (), "--label 'actors' is no group of this program; it has ['actor', 'learner'"),
        ("actor", ("--launch", "serial"), "--launch serial is for one machine"),
    ],
)
def test_bad_input_ends_with_words_and_code_2(tmp_path, label, flags, message):
    with Apart(LIGHT, "--workdir", str(tmp_path)) as apart:
        apart.start(label, flags=flags)
        codes, outputs = apart.finish()
    assert codes == {f"{label}/0": 2} and message in outputs[f"{label}/0"]


def test_nodes_with_another_key_are_refused_and_say_so(tmp_path):
    """The learner calls the variable server, and the actor nobody but the monitor."""
    keys.make_once(tmp_path / "other.pem")
    with Apart(LIGHT, "--workdir", str(tmp_path / "run")) as apart:
        for label in ("monitor", "variables"):
            apart.start(label)
        refused = [apart.start(label, key=str(tmp_path / "other.pem")) for label in ("learner", "actor")]
        for process in refused:
            output, _ = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 1 and "has another key than its caller" in output, output
    assert (tmp_path / "run" / "rpc.pem").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [None, "no key"])
def test_a_key_that_is_none_ends_with_words_and_code_2(tmp_path, content):
    if content is not None:
        (tmp_path / "rpc.pem").write_text(content)
    with Apart(LIGHT, "--workdir", str(tmp_path / "run")) as apart:
        apart.start("actor", key=str(tmp_path / "rpc.pem"))
        codes, outputs = apart.finish()
    assert codes == {"actor/0": 2} and "rpc.pem can't be read, or is no key" in outputs["actor/0"]
