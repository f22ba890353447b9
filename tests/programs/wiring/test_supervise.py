"""The program's result, from the monitor's last status and the ends of the workers."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from concurrent import futures

import pytest

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
from boonta.programs.wiring import supervise  # noqa: E402


class Worker:
    """One that lives for some polls and then died of `death`."""

    def __init__(self, name: str, polls: int = 0, death: str = ""):
        self.name = name
        self.pid = 1
        self.killed = False
        self._polls = itertools.count(-polls)
        self._death = death

    def alive(self) -> bool:
        return not self.killed and next(self._polls) < 0

    def death(self) -> str:
        return self._death

    def terminate(self) -> None: ...

    def kill(self) -> None:
        self.killed = True


class Monitor:
    """Answers every `status` alike."""

    def __init__(self, reason: str = "", failure: str = "", **activities: str):
        nodes = {
            name: {
                "activity": activity,
                "gone": activity == "gone",
                "activity_s": 0,
                "report_age_s": 0,
                "rss_mb": 0,
                "process": "host/1",
                "warning": "",
            }
            for name, activity in activities.items()
        }
        self._status = {"totals": {}, "row": {}, "nodes": nodes, "reason": reason, "failure": failure}
        self.expected: list[str] = []

    def expect(self, names: list[str]) -> None:
        self.expected = names

    def status(self) -> dict:
        return self._status

    def stop_program(self, reason: str) -> None: ...

    def report_end(self, name: str, failure: str) -> None: ...


class NoMonitor:
    def __getattr__(self, name: str):
        raise ConnectionError("nobody there")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(supervise, "POLL_S", 0.0)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def ending(capsys, monitor, *workers, caught: int = 0) -> tuple[int, str]:
    """The exit code, and what was printed."""
    with supervise.View() as view:
        supervisor = supervise._Supervisor([Worker("monitor", polls=3), *workers], monitor, view)
        supervisor._signal = caught
        supervisor.watch()
    code = supervisor.report()
    output = capsys.readouterr()
    return code, output.err.strip() or output.out.strip()


def test_a_stop_rule(capsys):
    monitor = Monitor("updates reached 5", learner="gone")
    assert ending(capsys, monitor, Worker("learner")) == (0, "done: updates reached 5")
    assert monitor.expected == ["learner"]


def test_a_failure_after_the_end_was_asked_for(capsys):
    monitor = Monitor("updates reached 5", "learner failed while saving a checkpoint: OSError", learner="gone")
    message = "error: learner failed while saving a checkpoint: OSError"
    assert ending(capsys, monitor, Worker("learner", death="exited with code 1")) == (1, message)
    assert ending(capsys, monitor, Worker("learner"), caught=signal.SIGTERM) == (1, message)


def test_a_death_after_the_end_was_asked_for(capsys):
    monitor = Monitor("updates reached 5", learner="saving a checkpoint")
    message = "error: learner was killed by SIGKILL while saving a checkpoint"
    assert ending(capsys, monitor, Worker("learner", death="was killed by SIGKILL")) == (1, message)


def test_an_abort_after_the_goodbye_is_no_failure(capsys):
    monitor = Monitor("updates reached 5", learner="gone")
    learner = Worker("learner", death="was killed by SIGABRT")
    assert ending(capsys, monitor, learner) == (0, "done: updates reached 5")


def test_ctrl_c_may_end_a_node_that_is_still_starting(capsys):
    evaluator = Worker("evaluator", death="was killed by SIGINT")
    assert ending(capsys, Monitor(), evaluator, caught=signal.SIGINT) == (130, "ended by SIGINT")
    code, message = ending(capsys, Monitor(), evaluator)
    assert (code, message) == (1, "error: evaluator was killed by SIGINT while starting")


def test_a_node_that_does_not_end_in_time_is_killed_and_named(capsys, monkeypatch):
    monkeypatch.setattr(supervise, "GRACE_S", 0.0)
    monitor = Monitor(learner="saving a checkpoint", **{"actor/0": "starting"})
    late = [Worker("learner", polls=10**9), Worker("actor/0", polls=10**9)]
    code, message = ending(capsys, monitor, *late, caught=signal.SIGTERM)
    assert (code, message) == (1, "error: learner (saving a checkpoint) did not end within 0 s")
    assert all(worker.killed for worker in late)


def test_threads_have_longer_to_end(capsys, monkeypatch):
    monkeypatch.setattr(supervise, "GRACE_S", 0.0)
    monkeypatch.setattr(supervise, "THREADS_GRACE_S", 0.2)
    thread = supervise._Thread("learner", futures.Future())
    code, message = ending(capsys, Monitor(learner="saving a checkpoint"), thread, caught=signal.SIGTERM)
    assert (code, message) == (1, "error: learner (saving a checkpoint) did not end within 0.2 s")


def test_a_monitor_that_does_not_answer_is_named(capsys, monkeypatch):
    monkeypatch.setattr(supervise, "START_S", 0.0)
    assert ending(capsys, NoMonitor(), Worker("learner", polls=3)) == (1, "error: monitor has not answered for 0 s")


@pytest.mark.parametrize(
    ("code", "death"),
    [("", ""), ("exit(3)", "exited with code 3"), ("os.kill(os.getpid(), 9)", "was killed by SIGKILL")],
)
def test_how_a_process_died(code, death):
    process = subprocess.Popen([sys.executable, "-c", f"import os; {code}"])
    process.wait()
    assert supervise._Process("learner", process).death() == death


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_what_we_ended_did_not_die(end):
    worker = supervise._Process("learner", subprocess.Popen(["sleep", "60"]))
    getattr(worker, end)()
    worker._process.wait()
    assert worker.death() == ""
