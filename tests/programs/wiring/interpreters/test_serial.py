"""The serial schedule: how it ends, and that one thread never waits for itself."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from boonta.nodes import metrics
from boonta.tests.helpers.deadline import DEADLINE_S

pytestmark = [pytest.mark.cluster, pytest.mark.unoptimised]
pytest.importorskip("launchpad")
from boonta.envs.catch import Catch  # noqa: E402
from boonta.nodes.actor import Actor  # noqa: E402
from boonta.nodes.learner import Learner  # noqa: E402
from boonta.nodes.replay import Replay  # noqa: E402
from boonta.nodes.variables import VariableServer  # noqa: E402
from boonta.programs.dqn import dqn  # noqa: E402
from boonta.programs.wiring import launch  # noqa: E402
from boonta.programs.wiring.interpreters import serial  # noqa: E402
from boonta.tests.helpers import tiny, traces  # noqa: E402
from boonta.tests.helpers.solo_program import solo_program  # noqa: E402
from boonta.tests.helpers.tiny_program import tiny_program  # noqa: E402


def run(workdir, *arguments: str) -> int:
    """The exit code."""
    with pytest.raises(SystemExit) as ended:
        launch.main(tiny_program, ["--workdir", str(workdir), "--launch", "serial", *arguments])
    return int(ended.value.code or 0)


def test_the_same_seed_gives_the_same_run_and_another_seed_another(tmp_path):
    last = []
    for folder, seed in (("a", 3), ("b", 3), ("c", 4)):
        assert run(tmp_path / folder, "--stop.updates", "20", "--seed", str(seed)) == 0
        row = metrics.read(tmp_path / folder)[-1]
        last.append([row[name] for name in ("updates", "env_steps", "episodes", "return", "loss")])
    assert last[0] == last[1] != last[2]
    assert last[0][0] == 20


def test_updates_of_the_learner_are_traced_on_request(tmp_path, capsys):
    assert run(tmp_path, "--stop.updates", "40", "--profile", "4") == 0
    assert f"4 updates of the learner are traced, after the first 10 of each of its lives, into {tmp_path}/profile" in (
        capsys.readouterr().out
    )
    assert traces.updates(tmp_path / "profile" / "learner")[0] == 10
    assert "learner: updating" in {event["name"] for event in traces.events(tmp_path / "profile" / "learner")}


CRASHING = """
import atexit, os, signal
from boonta.programs.wiring.launch import RunFlags, main
from boonta.tests.helpers.tiny_program import tiny_program
atexit.register(os.kill, os.getpid(), signal.SIGSEGV)  # It would run last: as C++ libraries end.

def program(run: RunFlags):
    atexit.register(print, "a handler of the user's", flush=True)
    return tiny_program(run)

main(program)
"""


def test_what_crashes_after_the_run_does_not_change_its_exit_code(tmp_path):
    (tmp_path / "program.py").write_text(CRASHING)
    flags = ["--workdir", str(tmp_path / "run"), "--launch", "serial", "--stop.updates", "2"]
    command = [sys.executable, str(tmp_path / "program.py"), *flags]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    lines = ["done: updates reached 2 (limit 2)", "a handler of the user's"]
    assert ended.returncode == 0 and ended.stdout.splitlines()[-2:] == lines, ended


def test_a_group_may_write_more_than_the_queue_holds(tmp_path):
    """128 sequences at once into a queue of 32: the learner empties it while the actor waits."""
    assert run(tmp_path, "--num-envs", "256", "--stop.updates", "20") == 0
    assert metrics.read(tmp_path)[-1]["updates"] >= 20


def test_batches_that_are_ready_at_once_are_not_all_learned_from_after_the_limit(tmp_path):
    """A table that has reached its least size gives some sixty at once; each node's step may be followed by one."""
    flags = ["--launch", "serial", "--config.replay.min-size", "1000", "--stop.updates", "3"]
    with pytest.raises(SystemExit, match="0"):
        launch.main(dqn, ["catch", "--workdir", str(tmp_path), *flags])
    assert 3 <= metrics.read(tmp_path)[-1]["updates"] < 12


def test_another_networks_checkpoint_fails_before_work_and_stays(tmp_path):
    assert run(tmp_path, "--stop.updates", "3") == 0
    folder = tmp_path / "checkpoints"
    learner = Learner(
        "learner", tiny.make(Catch(8, 5).spec), Catch(8, 5).spec, None, VariableServer("variables"), folder=str(folder)
    )
    with pytest.raises(ValueError, match=r"another network's: weights/linear/w is \(50, 3\) there, \(40, 3\) here"):
        learner.start()
    assert {"3"} <= {path.name for path in folder.iterdir()} <= {"3", "best"}


@pytest.fixture
def hang_up_not_ignored():
    """As usual, though the tests may run under nohup, and a program leaves SIGHUP ignored that it finds ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hang_up_not_ignored")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_it_and_everything_is_saved(tmp_path, monkeypatch, capsys, number, code):
    settle = Learner.settle

    def interrupted(learner):
        settle(learner)
        if learner._updates == 3:
            monkeypatch.setattr(Learner, "settle", settle)
            signal.raise_signal(number)

    monkeypatch.setattr(Learner, "settle", interrupted)
    assert run(tmp_path) == code
    assert capsys.readouterr().out.splitlines()[-1] == f"ended by {signal.Signals(number).name}"
    # An evaluation may have come first or not: the evaluator goes by the clock.
    assert {"3"} <= {path.name for path in (tmp_path / "checkpoints").iterdir()} <= {"3", "best"}
    assert list(tmp_path.glob("replay/*/DONE"))


def test_a_failing_close_is_told_and_costs_the_others_nothing(tmp_path, monkeypatch, capsys):
    closed = []

    def close(actor):
        raise OSError("the simulator won't end")

    monkeypatch.setattr(Actor, "close", close)
    for node in (Learner, Replay):
        monkeypatch.setattr(node, "close", lambda self, close=node.close: (close(self), closed.append(self.name)))
    with pytest.raises(SystemExit, match="1"):
        launch.main(tiny_program, ["--workdir", str(tmp_path), "--launch", "serial", "--stop.updates", "3"])
    assert closed == ["learner", "replay"]
    assert "OSError: the simulator won't end" in capsys.readouterr().err


def test_the_view_leaves_the_terminal_as_it_was_whatever_happens(tmp_path, monkeypatch):
    left = []
    monkeypatch.setattr(serial.View, "__exit__", lambda view, *error: left.append(error[0]))
    monkeypatch.setattr(serial, "_loop", lambda nodes, view: signal.raise_signal(signal.SIGINT))
    assert run(tmp_path) == 130
    assert left == [KeyboardInterrupt]


def test_an_interrupt_that_an_environment_raises_itself_ends_the_run_as_ctrl_c_does(tmp_path, monkeypatch, capsys):
    def interrupted(actor):
        raise KeyboardInterrupt

    monkeypatch.setattr(Actor, "step", interrupted)
    assert run(tmp_path) == 130
    assert capsys.readouterr().out.splitlines()[-1] == "ended by SIGINT"


@pytest.mark.parametrize(
    ("error", "cause"),
    [(ValueError("the engine is gone"), "ValueError: the engine is gone"), (SystemExit(3), "SystemExit: 3")],
)
def test_a_node_that_fails_is_named_and_the_learner_saves(tmp_path, monkeypatch, capsys, error, cause):
    step, settle, updates = Actor.step, Learner.settle, []

    def failing(actor):
        step(actor)
        if len(updates) >= 3:
            raise error

    monkeypatch.setattr(Learner, "settle", lambda learner: (settle(learner), updates.append(learner)))
    monkeypatch.setattr(Actor, "step", failing)
    assert run(tmp_path) == 1
    shown = capsys.readouterr()
    assert f"actor/0 failed while stepping: {cause}" in shown.out + shown.err
    assert "in failing" in shown.err and list(tmp_path.glob("checkpoints/*"))


def test_the_failure_that_came_first_is_named(tmp_path, monkeypatch, capsys):
    def failing(actor):
        raise ValueError("the engine is gone")

    def close(node):
        raise OSError(f"{node.name} won't end")

    monkeypatch.setattr(Actor, "step", failing)
    for node in (Actor, VariableServer):  # The actor is closed first, and then the server.
        monkeypatch.setattr(node, "close", close)
    assert run(tmp_path) == 1
    shown = capsys.readouterr()
    assert "actor/0 failed while stepping: ValueError: the engine is gone" in shown.out + shown.err
    assert "OSError: actor/0 won't end" in shown.err and "OSError: variables won't end" in shown.err


def test_a_run_whose_evaluations_get_no_better_ends_when_its_patience_runs_out(tmp_path, capsys):
    """Episodes of two steps have no return."""
    flags = ["--launch", "serial", "--max-steps", "2", "--stop.patience", "2", "--stop.seconds", "200"]
    with pytest.raises(SystemExit, match="0"):
        launch.main(solo_program, ["--workdir", str(tmp_path), *flags])
    assert "done: patience: 2 evaluations in a row not above the best, 0 at " in capsys.readouterr().out
    versions = {row["eval_version"] for row in metrics.read(tmp_path) if row.get("eval_version") is not None}
    assert len(versions) == 3
