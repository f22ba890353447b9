"""Several learners with one monitor: how they begin, end and save together, here without JAX's coordination."""

from __future__ import annotations

import threading
import time
from concurrent import futures

import jax
import numpy as np
import pytest

from boonta.envs.catch import Catch
from boonta.nodes.base import AWAY_S, Node, Stopped
from boonta.nodes.hosts import agreement, coordination, learners
from boonta.nodes.hosts.agreement import LOST, encode
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.hosts.learners import SeveralLearners, Uncounted
from boonta.nodes.learner import Learner
from boonta.nodes.snapshots.store import numbers
from boonta.nodes.variables import VariableServer
from boonta.nodes.watch import pulse
from boonta.tests.helpers import tiny
from boonta.tests.helpers.batches import Batches, BatchStore

DEADLINE_S = 60.0


class Monitor:
    """Remembers what it is told."""

    def __init__(self):
        self.failures, self.ended, self.beats, self.snapshots = [], [], [], []

    def fail_program(self, failure: str) -> None:
        self.failures.append(failure)

    def report_end(self, name: str, failure: str, life: str = "") -> None:
        self.ended.append((name, failure))

    def beat(self, report: dict) -> dict:
        self.beats.append(report)
        return {"stop": ""}


class Few(Batches):
    """Has three batches."""

    left = 3

    def next(self, timeout_s: float):
        if not self.left:
            return None
        self.left -= 1
        return super().next(timeout_s)


@pytest.fixture
def posts(monkeypatch):
    """What learners post, without a coordinator; as there, a key is never posted twice."""
    found: dict[str, str] = {}

    def post(key: str, value: str) -> None:
        assert key not in found
        found[key] = value

    monkeypatch.setattr(coordination, "post", post)
    monkeypatch.setattr(coordination, "posted", found.get)
    return found


@pytest.fixture
def joins(monkeypatch):
    monkeypatch.setattr(Hosts, "join", lambda self, built_from, folder: None)


def joined(index: int, number: int = 2, monitor: Monitor | None = None) -> tuple[SeveralLearners, Node]:
    agreement = SeveralLearners(Hosts("here:1", number, index), monitor)
    node = Node(f"learner/{index}")
    node.stop = lambda: agreement.may_end() and node._stop.set()
    agreement.join(node, "folder")
    return agreement, node


def begun(agreement: SeveralLearners) -> threading.Thread:
    """Begins in the background; the thread's `result` says how."""

    def begin() -> None:
        try:
            agreement.begin()
            thread.result = "begun"
        except Stopped:
            thread.result = "stopped"

    thread = threading.Thread(target=begin, daemon=True)
    thread.start()
    return thread


def results(*threads: threading.Thread) -> list[str]:
    for thread in threads:
        thread.join(DEADLINE_S)
    return [thread.result for thread in threads]


def reports(*agreements: SeveralLearners, saving: bool = False) -> np.ndarray:
    """What an update returns: a row for each learner."""
    return np.stack([encode(each._part.host_report(saving)) for each in agreements])


def test_all_begin_once_each_has_a_batch(posts, joins):
    (one, first), (two, _) = joined(0), joined(1)
    waiting = begun(one)
    assert not first.stopping
    assert results(waiting, begun(two)) == ["begun", "begun"]
    assert posts == {"has_batch/0": "1", "has_batch/1": "1"}
    one.begin()  # Later updates need no meeting.


def test_a_learner_that_is_to_end_without_a_batch_ends_all_and_none_saves(posts, joins):
    monitor = Monitor()
    (one, first), (two, second) = joined(0, monitor=monitor), joined(1, monitor=monitor)
    waiting = begun(one)
    second.ending = True  # The monitor asks for it, and asks the first one later.
    second.stop()
    assert second.stopping and results(waiting) == ["stopped"]
    assert first.stopping and not one.saves_at_end() and not two.saves_at_end()


def test_a_learner_that_is_asked_before_it_has_joined_ends_at_once_and_tells_the_others_once_it_has(posts, joins):
    agreement = SeveralLearners(Hosts("here:1", 2, 0))
    assert agreement.may_end() and posts == {}
    node = Node("learner/0")
    agreement.join(node, "folder")
    assert posts == {"has_batch/0": "0"}


def test_a_learner_that_is_asked_goes_on_until_all_know_and_all_end_after_the_same_update(posts, joins):
    (one, first), (two, second) = joined(0), joined(1)
    assert results(begun(one), begun(two)) == ["begun", "begun"]
    second.ending = True
    assert not one.merge(reports(one, two), 1).end
    second.stop()
    second.stop()  # Each heartbeat asks again.
    assert not second.stopping and not two.saves_at_end()
    told = reports(one, two)
    assert one.merge(told, 2).end and two.merge(told, 2).end
    assert one.saves_at_end() and two.saves_at_end()
    first.stop()
    second.stop()
    assert first.stopping and second.stopping


def test_a_learner_that_a_signal_ends_tells_the_monitor_who_was_asked(posts, joins):
    monitor = Monitor()
    (one, _), (two, second) = joined(0, monitor=monitor), joined(1, monitor=monitor)
    assert results(begun(one), begun(two)) == ["begun", "begun"]
    second.stop()
    second.stop()
    assert monitor.failures == ["learner/1 was asked to end"] and not second.stopping


def test_all_save_when_the_first_ones_checkpoint_is_due(posts, joins):
    (one, _), (two, _) = joined(0), joined(1)
    told = np.stack([encode(one._part.host_report(True)), encode(two._part.host_report(False))])
    assert one.merge(told, 1).save and two.merge(told, 1).save
    told = np.stack([encode(one._part.host_report(False)), encode(two._part.host_report(True))])
    assert not one.merge(told, 2).save and not two.merge(told, 2).save


def test_only_a_learner_that_is_asked_and_has_waited_makes_do_with_its_last_batch(posts, joins, monkeypatch):
    one, node = joined(0)
    assert not one.makes_do()
    one.may_end()
    monkeypatch.setattr(learners, "PATIENCE_S", 1e9)
    assert not one.makes_do()
    monkeypatch.setattr(learners, "PATIENCE_S", -1.0)
    assert one.makes_do()


def test_a_failed_update_says_that_another_learner_may_be_the_cause(posts, joins):
    one, _ = joined(0, number=3)
    failure = jax.errors.JaxRuntimeError("INTERNAL: connection closed by peer")
    failure.activity = "updating"
    explained = one.explain(failure)
    assert explained.activity == "updating" and explained.__cause__ is failure
    assert str(explained) == f"{LOST}, of learner/1, learner/2, or the connection to it: INTERNAL: connection closed " \
        "by peer"  # fmt: skip
    for own in (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory"), ValueError("a bug")):
        assert one.explain(own) is own


def test_meeting_the_others_is_connecting(posts, monkeypatch):
    met = threading.Event()
    monkeypatch.setattr(Hosts, "join", lambda self, built_from, folder: met.wait(DEADLINE_S))
    agreement, node = SeveralLearners(Hosts("here:1", 2, 1)), Node("learner/1")
    joining = futures.ThreadPoolExecutor(1).submit(agreement.join, node, "folder")
    until = time.monotonic() + DEADLINE_S
    while node.stopwatch.longest()[0] != "connecting to the other learners":
        assert time.monotonic() < until
        time.sleep(0.01)
    met.set()
    joining.result(DEADLINE_S)
    assert not pulse.is_limited("connecting to the other learners")  # Hosts start minutes apart.


def test_an_update_that_takes_long_waits_for_the_other_learners(posts, joins, monkeypatch):
    """Whose actors may be away for hours; a wait has no limit, and an update has one."""
    monkeypatch.setattr(agreement, "UPDATE_S", -1.0)
    (one, node), update = joined(0), futures.Future()
    waiting = futures.ThreadPoolExecutor(1).submit(one.settle, node, update)
    until = time.monotonic() + DEADLINE_S
    while node.stopwatch.longest()[0] != "waiting for the other learners":
        assert time.monotonic() < until
        time.sleep(0.01)
    update.set_result("reports")
    assert waiting.result(DEADLINE_S) == "reports"
    failed: futures.Future = futures.Future()
    failed.set_exception(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        one.settle(node, failed)


def test_a_learner_waits_for_the_others_as_long_as_actors_may_be_away(posts, joins, monkeypatch):
    monkeypatch.setattr(agreement, "UPDATE_S", -1.0)
    one, node = joined(0)
    deadlines: list[float] = []
    monkeypatch.setattr(node, "wait_for", lambda what, poll, deadline_s=0.0: deadlines.append(deadline_s) or True)
    one.begin()
    update: futures.Future = futures.Future()
    monkeypatch.setattr(update, "result", lambda: None)
    one.settle(node, update)
    assert deadlines == [AWAY_S, AWAY_S]


def test_other_learners_are_seen_by_the_monitor_and_not_counted():
    monitor = Monitor()
    other = Uncounted(monitor)
    node = Node("learner/1", other)
    node.count(updates=3.0)
    node.sample("batch_share/a", 1.0)
    node.measure({"loss": 1.0})
    other.beat(node.report())
    (report,) = monitor.beats
    assert report["name"] == "learner/1" and report["counts"] == report["samples"] == report["metrics"] == {}
    other.request_snapshot(5)
    other.report_end("learner/1", "it failed")
    assert monitor.ended == [("learner/1", "it failed")]


def learner_of(tmp_path, monkeypatch, agreement) -> Learner:
    agent = tiny.make(Catch().spec)
    settings = {"folder": str(tmp_path), "devices": 1, "agreement": agreement}
    return Learner("learner/0", agent, Catch().spec, BatchStore(Few), VariableServer("v"), **settings)


def test_a_learner_whose_actors_have_ended_learns_from_its_last_batch_until_all_agree(
    posts, joins, tmp_path, monkeypatch
):
    """Here it agrees with itself."""
    agreement = SeveralLearners(Hosts("", 1, 0))
    learner = learner_of(tmp_path, monkeypatch, agreement)
    thread = threading.Thread(target=learner.run, daemon=True)
    thread.start()
    until = time.monotonic() + DEADLINE_S
    while getattr(learner, "_updates", 0) < 3:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert thread.is_alive() and learner._updates == 3
    learner.stop()
    thread.join(DEADLINE_S)
    assert not thread.is_alive() and not learner.failed
    assert learner._updates == 5 and numbers(tmp_path) == [5]  # The second one's end was agreed on by the first one.


def test_a_learner_that_never_had_a_batch_ends_without_saving(posts, joins, tmp_path, monkeypatch):
    monkeypatch.setattr(Few, "left", 0)
    agreement = SeveralLearners(Hosts("", 1, 0))
    learner = learner_of(tmp_path, monkeypatch, agreement)
    thread = threading.Thread(target=learner.run, daemon=True)
    thread.start()
    until = time.monotonic() + DEADLINE_S
    while not learner._started:
        assert time.monotonic() < until
        time.sleep(0.01)
    learner.stop()
    thread.join(DEADLINE_S)
    assert not thread.is_alive() and not learner.failed and not numbers(tmp_path)
    assert posts == {"has_batch/0": "0"}
