"""What a signal does to a node on a host of its own, and what the program makes of it."""

from __future__ import annotations

import signal
import threading

import pytest

from boonta.deploy import ending
from boonta.deploy.core import Task
from boonta.nodes.base import Node
from boonta.nodes.monitor import Monitor
from boonta.nodes.watch.stopping import COLLAPSE, COLLAPSED_CODE, StopRule
from boonta.programs.wiring.run_folder import journal
from boonta.tests.helpers.deadline import DEADLINE_S


class Breaks(Node):
    """A node that raises, and gets SIGTERM before that or after it."""

    signal_first = True
    process: ending.Ending

    def start(self):
        self.on_close(self._signal_last)

    def step(self):
        if self.signal_first:
            self.process.on_signal(signal.SIGTERM, None)
        raise OSError("the simulator is gone")

    def _signal_last(self):
        if not self.signal_first:
            self.process.on_signal(signal.SIGTERM, None)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs such a node of a role, and returns why the program fails, and the process's exit code."""
    monkeypatch.setattr(ending, "end_now", lambda code: None)  # This process must not end.

    def run(role: str, signal_first: bool, comes_back: bool = False) -> tuple[str, int]:
        monitor = Monitor("monitor", str(tmp_path), StopRule())
        task = Task(role, 0, f"{role}/0", (), role)
        monitor.expect([task.name], [task.name] if task.is_dispensable else [], [task.name] if comes_back else [])
        node = Breaks(task.name, monitor)
        node.signal_first, node.process = signal_first, ending.Ending(task, node, node._stop, comes_back)
        with pytest.raises(OSError):
            node.run()
        node.process.error = f"{task.name}: OSError"
        return monitor.status()["failure"], node.process.code()

    return run


@pytest.mark.parametrize("role", ["actor", "evaluator", "reanalyzer"])
def test_a_node_that_is_told_to_leave_and_then_raises_is_one_that_left(run, capsys, role):
    assert run(role, signal_first=True) == ("", 143)
    assert f"{role}/0: ended by signal 15, and failed while it left: {role}/0: OSError" in capsys.readouterr().out


def test_a_server_that_is_told_to_leave_ends_the_program_unless_it_comes_back(run, capsys):
    assert run("replay", signal_first=True, comes_back=True) == ("", 143)
    assert run("replay", signal_first=True)[0] == "replay/0 failed while stepping: OSError: the simulator is gone"
    assert run("replay", signal_first=False, comes_back=True)[1] == 1  # It has raised before.


@pytest.mark.parametrize("over", [False, True])
def test_a_monitor_that_comes_back_only_leaves_unless_the_program_ends(tmp_path, capsys, over):
    monitor = Monitor("monitor", str(tmp_path), StopRule())
    if over:
        monitor.finish_program("enough")
    stop = threading.Event()
    process = ending.Ending(Task("monitor", 0, "monitor", (), "monitor"), monitor, stop, comes_back=True)
    process.on_signal(signal.SIGTERM, None)
    assert process.code() == (0 if over else 143)
    assert stop.is_set() is not over and monitor.status()["failure"] == ""
    if not over:
        monitor.stop()  # As `pulse.watch` does then.
        assert monitor.stopping and monitor.status()["reason"] == ""


@pytest.mark.parametrize(("failure", "code"), [("", 0), ("monitor was asked to end by signal 15", 143)])
def test_a_signal_that_comes_after_another_node_has_got_it_counts(capsys, failure, code):
    """Connections end one after the other; one that has done its work stays so."""
    node = Breaks("learner")
    node.ending, node.failure = True, failure
    process = ending.Ending(Task("learner", 0, "learner", (), "learner"), node, node._stop)
    process.on_signal(signal.SIGTERM, None)
    assert process.code() == code


@pytest.mark.parametrize(
    ("role", "failure", "error", "code"),
    [
        ("learner", "learner/1 was asked to end", "", 143),
        ("learner", "learner/1 was asked to end", "learner/0: OSError: the disk is full", 1),
        ("learner", "learner/1 failed while stepping: OSError: the disk is full", "", 1),
        ("variables", "learner/1 was asked to end", "", 1),
    ],
)
def test_a_learner_that_ends_because_another_was_asked_to_has_the_code_of_that_one(role, failure, error, code):
    node = Breaks(role)
    node.ending, node.failure = True, failure
    process = ending.Ending(Task(role, 0, role, (), role), node, node._stop)
    process.error = error
    assert process.code() == code


@pytest.mark.parametrize("held", ["_lock", "_state"])
def test_a_signal_ends_the_monitor_though_it_interrupts_code_that_holds_a_lock(tmp_path, capsys, held):
    """The code goes on after the handler has returned, and only then gives the lock back."""
    monitor = Monitor("monitor", str(tmp_path), StopRule())
    process = ending.Ending(Task("monitor", 0, "monitor", (), "monitor"), monitor, monitor._stop)

    seen: list[bool] = []

    def interrupted() -> None:
        with getattr(monitor._reporter if held == "_lock" else monitor, held):
            process.on_signal(signal.SIGTERM, None)
            seen.append(monitor.stopping)

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(DEADLINE_S)
    assert not thread.is_alive() and seen == [False]  # What the lock keeps was as before.
    assert process.code() == 143 and monitor.stopping
    assert monitor.status()["failure"] == "monitor was asked to end by signal 15"


@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        (lambda monitor, process: monitor.finish_program("updates reached 5"), 0, "done: updates reached 5"),
        (lambda monitor, process: monitor.finish_program(COLLAPSE), COLLAPSED_CODE, f"done: {COLLAPSE}"),
        (lambda monitor, process: monitor.fail_program("learner: 100% wrong"), 1, "learner: 100% wrong"),
        (lambda monitor, process: setattr(process, "error", "monitor: OSError"), 1, "monitor: OSError"),
        (lambda monitor, process: process.on_signal(signal.SIGTERM, None), 143, "ended by SIGTERM"),
    ],
)
def test_what_the_monitors_process_says_at_its_end_is_how_the_run_has_ended(tmp_path, capsys, end, code, told):
    monitor = Monitor("monitor", str(tmp_path), StopRule())
    process = ending.Ending(Task("monitor", 0, "monitor", (), "monitor"), monitor, monitor._stop)
    with journal.kept_in(tmp_path):
        end(monitor, process)
        assert process.code() == code
    assert journal.end_of(journal.lines(tmp_path)) == told
    out, err = capsys.readouterr()
    assert (err == f"error: {told}\n") == (code == 1)
    assert ("monitor: done" in out) == (code in (0, COLLAPSED_CODE))
    assert ("monitor: ended by signal 15" in out) == (code == 143)


@pytest.mark.parametrize(("role", "signal_first"), [("learner", True), ("actor", False)])
def test_one_that_others_need_or_that_raised_before_has_failed(run, role, signal_first):
    failure, code = run(role, signal_first)
    assert failure == f"{role}/0 failed while stepping: OSError: the simulator is gone" and code == 1
