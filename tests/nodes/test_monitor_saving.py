"""The monitor and saves: who is asked for one, how long the end waits for one, and which is the newest."""

from __future__ import annotations

import threading
import time

import pytest

from boonta.nodes import metrics
from boonta.nodes.monitor import Monitor
from boonta.nodes.snapshots import files
from boonta.nodes.snapshots.store import SnapshotFolder
from boonta.nodes.watch.calls import in_thread, polled
from boonta.nodes.watch.stopping import StopRule
from boonta.tests.helpers.heartbeats import report


def test_a_snapshot_that_is_asked_for_is_told_to_all(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule())
    monitor.start()
    assert monitor.beat(report("replay"))["snapshot_request"] == (0, 0)
    for number in (0, 0, 7, 7):  # A call that wasn't answered in time is repeated.
        monitor.request_snapshot(number)
    assert monitor.beat(report("replay"))["snapshot_request"] == (2, 7)


def test_time_in_which_a_node_saves_does_not_count_at_the_end(tmp_path, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monitor = Monitor("monitor", str(tmp_path), StopRule())
    monitor.start()
    monitor.stop_program("enough")

    def rounds(seconds: int, **told) -> None:
        for _ in range(seconds):
            clock[0] += 1.0
            number = int(clock[0])
            monitor.beat({**report("replay", end_order=2), "number": number, **told})
            monitor.beat({**report("learner"), "number": number})
            monitor.round()

    rounds(300, saving=True)
    assert monitor.status()["saving"] == ["replay"] and not monitor.stopping
    assert monitor.beat(report("replay", end_order=2))["stop"] == ""
    rounds(9)
    assert monitor.beat(report("replay", end_order=2))["stop"] == "enough" and not monitor.stopping
    rounds(12)
    assert monitor.stopping


def test_status_has_the_newest_snapshot_that_is_whole(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule())
    monitor.start()
    monitor.round()
    assert monitor.status()["snapshot"] is None
    for name, number, beside in (("checkpoints", 10, "replay"), ("replay", 10, ""), ("checkpoints", 20, "replay")):
        with SnapshotFolder(tmp_path / name, name).writing(number, beside) as new:
            new.mkdir()
            (new / "array").write_bytes(bytes(500_000))
    again = Monitor("monitor", str(tmp_path), StopRule())
    again.start()
    again.round()
    snapshot = again.status()["snapshot"]
    assert (snapshot["number"], snapshot["mb"]) == (10, 1.0) and 0 <= snapshot["age_s"] < 3_600


@pytest.mark.parametrize("writer", [(files, "write_whole"), (metrics.Rows, "write")], ids=["counters", "rows"])
def test_who_asks_the_monitor_does_not_wait_for_a_disk_that_stalls(tmp_path, monkeypatch, writer):
    monkeypatch.setattr("boonta.nodes.monitor.SAVE_EVERY_S", 0.0)
    monitor = Monitor("monitor", str(tmp_path), StopRule(), log_every_s=0.0)
    monitor.start()
    monitor.beat(report("learner"))
    stalls, works = threading.Event(), threading.Event()

    def stall(*args: object, **settings: object) -> None:
        stalls.set()
        works.wait(60)

    def ask() -> None:
        monitor.status()
        monitor.beat({**report("learner", eval_version=1.0), "number": 2})  # It makes a row.

    with monkeypatch.context() as patched:
        patched.setattr(*writer, stall)
        written = in_thread(monitor.round)
        assert stalls.wait(60)
        answered = polled(in_thread(ask), 20)
        works.set()
        assert answered and polled(written, 60)
    monitor.round()
    assert metrics.read(tmp_path)[-1]["eval_version"] == 1.0
