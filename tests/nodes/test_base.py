from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable

import pytest

from boonta.nodes.base import Node, Stopped
from boonta.nodes.monitor import Monitor
from boonta.nodes.periodic import Periodic
from boonta.nodes.watch import pulse
from boonta.nodes.watch.stopping import StopRule


class FakeMonitor:
    """Asks the node to stop after so many reports, or once one is enough."""

    def __init__(self, stop_after: int = 10**9, enough: Callable[[dict], object] = lambda report: False):
        self.reports: list[dict] = []
        self.failures: dict[str, str] = {}
        self._stop_after, self._enough = stop_after, enough

    def beat(self, report: dict) -> dict:
        self.reports.append(report)
        enough = len(self.reports) >= self._stop_after or bool(self._enough(report))
        reply = {"failure": "", "counts": {"updates": 7.0}, "evaluation": {}, "snapshot_request": [2, 30]}
        reply["past_lives"] = 1
        return {**reply, "stop": "enough" if enough else "", "ending": enough}

    def report_end(self, name: str, failure: str, life: str) -> None:
        self.failures[name] = failure


class Counter(Node):
    def step(self) -> None:
        with self.stopwatch("counting"):
            self.count(steps=1)
            self.sample("value", 3.0)
            self.sleep(0.01)


def test_a_node_that_no_launcher_started_again_learns_from_the_monitor_that_it_has_lived_before(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule())
    monitor.start()
    lives = []
    for _ in range(3):
        node = Counter("actor/0", monitor)
        node.heartbeat()
        lives.append(node.past_lives)
    other = Counter("actor/1", monitor)
    other.past_lives = 4  # A launcher knows of lives that ended before their first heartbeat.
    other.heartbeat()
    assert (lives, other.past_lives) == ([0, 1, 2], 4)


def test_only_a_node_that_is_started_apart_learns_how_often_the_program_was_started_before(tmp_path):
    for i, (apart, starts) in enumerate([(True, 0), (False, 0), (True, 2)]):
        monitor = Monitor("monitor", str(tmp_path), StopRule())
        node = Counter("actor/0", monitor)
        node.apart = apart
        node.heartbeat()
        assert (node.past_starts, node.past_lives) == (starts, 0), i


def test_runs_until_the_monitor_says_stop_and_reports_everything():
    monitor = FakeMonitor(stop_after=60, enough=lambda report: report["counts"].get("steps", 0) > 20)
    node = Counter("counter", monitor)
    node.run()
    last = monitor.reports[-1]
    assert last["counts"]["steps"] > 10
    assert last["seconds"]["counting"] > 0.1
    assert sum(len(report["samples"].get("value", [])) for report in monitor.reports) == last["counts"]["steps"]
    assert node.program_counts == {"updates": 7.0} and node.snapshot_request == (2, 30)
    assert monitor.failures == {"counter": ""}


def test_a_node_that_saves_at_its_end_says_so_meanwhile():
    monitor = FakeMonitor(stop_after=1)
    node = Counter("counter", monitor)

    def save() -> None:
        """Saves until the monitor has heard of it twice."""
        with node.stopwatch("saving all"):
            deadline = time.monotonic() + 60
            while sum(report["saving"] for report in monitor.reports) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.01)

    node.on_close(save)
    node.run()
    saving = [report for report in monitor.reports if report["saving"]]
    assert {report["activity"] for report in saving} == {"saving all"}
    assert not monitor.reports[-1]["saving"] and monitor.failures == {"counter": ""}


class Failing(Node):
    def step(self) -> None:
        with self.stopwatch("dividing"):
            print(1 / 0)


def test_a_failing_step_ends_the_node_and_names_node_activity_and_cause():
    monitor = FakeMonitor()
    with pytest.raises(ZeroDivisionError):
        Failing("actor/3", monitor).run()
    assert monitor.failures["actor/3"] == "actor/3 failed while dividing: ZeroDivisionError: division by zero"


@pytest.mark.parametrize(("phase", "activity"), [("start", "starting"), ("step", "stepping"), ("close", "closing")])
def test_a_failure_outside_any_activity_says_how_far_the_node_was(monkeypatch, phase, activity):
    monitor = FakeMonitor(stop_after=2)
    node = Counter("actor/3", monitor)
    monkeypatch.setattr(node, phase, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        node.run()
    assert monitor.failures["actor/3"] == f"actor/3 failed while {activity}: ZeroDivisionError: division by zero"


class Recovering(Node):
    def step(self) -> None:
        with contextlib.suppress(KeyError), self.stopwatch("looking up"):
            raise KeyError("found elsewhere")
        with self.stopwatch("dividing"):
            print(1 / 0)


def test_an_error_that_was_handled_is_not_blamed():
    monitor = FakeMonitor()
    with pytest.raises(ZeroDivisionError):
        Recovering("actor/3", monitor).run()
    assert monitor.failures["actor/3"].startswith("actor/3 failed while dividing: ")


def test_a_node_that_fails_and_then_hangs_as_it_closes_reports_its_failure(monkeypatch):
    monkeypatch.setattr(pulse, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(Failing, "limit_s", 0.0)
    node, known = Failing("actor/3", FakeMonitor()), {}

    def hang() -> None:
        """Hangs until the monitor knows why the node fails."""
        deadline = time.monotonic() + 30
        while not node.monitor.failures and time.monotonic() < deadline:
            time.sleep(0.01)
        known.update(node.monitor.failures)

    node.on_close(hang)
    with pytest.raises(ZeroDivisionError):
        node.run()
    assert known == {"actor/3": "actor/3 failed while dividing: ZeroDivisionError: division by zero"}


class FailingStart(Node):
    def start(self) -> None:
        raise ValueError("no such thing")

    def step(self) -> None:
        raise AssertionError("must not be reached")


def test_a_failing_start_is_reported_and_never_steps():
    monitor = FakeMonitor()
    with pytest.raises(ValueError, match="no such thing"):
        FailingStart("learner", monitor).run()
    assert "learner failed while starting: ValueError: no such thing" in monitor.failures["learner"]


class TwoTasks(Node):
    def start(self) -> None:
        self.threads: set[int] = set()

    @property
    def tasks(self):
        return [self.good, self.bad]

    def good(self) -> None:
        self.threads.add(threading.get_ident())
        self.sleep(0.01)

    def bad(self) -> None:
        self.threads.add(threading.get_ident())
        self.wait_for("thread one", lambda timeout: len(self.threads) == 2 or self.sleep(0.01), deadline_s=60.0)
        raise RuntimeError("thread two")


def test_a_failure_in_any_thread_ends_the_node():
    node = TwoTasks("actor/0", FakeMonitor())
    with pytest.raises(RuntimeError, match="thread two"):
        node.run()
    assert len(node.threads) == 2


def test_a_wait_has_a_name_and_a_deadline():
    node = Node("actor/0")
    seen = []

    def poll(timeout):
        seen.append(node.stopwatch.longest()[0])
        time.sleep(0.02)

    with pytest.raises(TimeoutError, match=r"actor/0 waited 0 s for the bus"):
        node.wait_for("the bus", poll, deadline_s=0.05)
    assert set(seen) == {"waiting for the bus"}


def test_others_may_work_meanwhile():
    node = Node("actor/0")
    came = []
    node.meanwhile = lambda: came.append("room")
    assert node.wait_for("room", lambda timeout: came or None) == ["room"]


def test_a_wait_ends_when_the_node_is_told_to_stop():
    node = Node("actor/0")
    threading.Timer(0.1, node.stop).start()
    with pytest.raises(Stopped):
        node.wait_for("nothing", lambda timeout: time.sleep(0.02))


def test_a_lost_monitor_ends_the_node(monkeypatch):
    monkeypatch.setattr("boonta.nodes.watch.pulse.MONITOR_DEADLINE_S", 0.5)

    class Gone(FakeMonitor):
        def beat(self, report):
            raise ConnectionError("nobody there")

    with pytest.raises(TimeoutError, match="no answer from the monitor"):
        Counter("counter", Gone()).run()


def test_a_periodic_node_is_ready_only_when_due(monkeypatch):
    slept: list[float] = []
    node = Periodic("replay", every_s=1_000.0)
    monkeypatch.setattr(node, "sleep", slept.append)
    assert not node.ready()
    node.step()
    assert 900 < slept[0] <= 1_000
    assert not node.ready()


def test_the_late_end_of_a_life_says_nothing_of_the_next(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule())
    monitor.start()
    first, second = Counter("actor/0", monitor), Counter("actor/0", monitor)
    first.heartbeat()
    second.heartbeat()
    first.fail(ValueError("bad"))
    first.report_own_end()
    assert not monitor.status()["nodes"]["actor/0"]["gone"] and not monitor.status()["reason"]
    second.report_own_end()
    assert monitor.status()["nodes"]["actor/0"]["gone"]
    assert monitor.status()["failure"] == "actor/0 ended before the program did"


class Wedged(Node):
    """Has a step that never ends, and another thread that waits."""

    limit_s = 0.0

    @property
    def tasks(self):
        return (self.step, self.wait)

    def step(self) -> None:
        with self.stopwatch("acting"):
            self.sleep(60.0)

    def wait(self) -> None:
        self.wait_for("params", lambda timeout: self.sleep(timeout))


def test_a_heartbeat_says_which_thread_is_stuck_whoever_else_waits(monkeypatch):
    monkeypatch.setattr(pulse, "HEARTBEAT_S", 0.05)
    monitor = FakeMonitor(stop_after=1_000, enough=lambda report: "acting" in report["stuck"])
    Wedged("actor/0", monitor).run()
    stuck = [report["stuck"] for report in monitor.reports]
    assert any(re.fullmatch(r"has been acting for \d+ s, its limit is 0 s", each) for each in stuck)


def test_a_warning_that_differs_in_numbers_alone_is_not_given_again():
    node = Node("learner")
    for warning in ("", "1.5 MB free", "0.25 MB free", "", "the loss is 1e-05", "the loss is 2.5", "no room"):
        node.warn(warning)
    assert node.warnings == node.report()["warnings"] == ["1.5 MB free", "the loss is 1e-05", "no room"]


def test_what_a_thread_raises_that_was_given_up_is_no_failure(monkeypatch):
    node, closing = Node("actor/0"), threading.Event()
    monkeypatch.setattr("boonta.nodes.base.END_REPORT_S", 0.01)

    def use_what_is_closed() -> None:
        closing.wait()
        raise ValueError("the environment is closed")

    monkeypatch.setattr(Node, "tasks", (node.stop, use_what_is_closed))
    monkeypatch.setattr(node, "close", lambda: [closing.set(), *(thread.join() for thread in node._given_up)])
    node.run()
