"""Learners that save, on a disk that fills up, and that are started again."""

from __future__ import annotations

import threading

import pytest

from boonta.envs.catch import Catch
from boonta.nodes.learner import Learner
from boonta.nodes.monitor import Monitor
from boonta.nodes.snapshots.store import numbers
from boonta.nodes.variables import VariableServer
from boonta.nodes.watch.stopping import StopRule
from boonta.tests.helpers import tiny
from boonta.tests.helpers.batches import BatchStore
from boonta.tests.helpers.damage import fill_disk
from boonta.tests.helpers.fused import node
from boonta.tests.helpers.heartbeats import report

SPEC = Catch().spec


def test_a_learner(tmp_path, monkeypatch):
    settings = {"folder": str(tmp_path), "devices": 1, "save_every_s": 1e-9}
    learner = Learner("learner", tiny.make(SPEC), SPEC, BatchStore(), VariableServer("v"), **settings)
    learner.start()
    learner.step()
    with monkeypatch.context() as patch:
        fill_disk(patch)
        learner.step()
        assert numbers(tmp_path) == [1]
        assert "checkpoint 2 could not be saved" in learner.report()["warnings"][0]
        assert "has 0.0 MB free, and the last checkpoint took" in learner.report()["warnings"][0]
    learner.step()
    assert numbers(tmp_path) == [1, 3]
    learner._saver._saving = learner._saver._saving._replace(every_s=1e9)
    learner.step()
    fill_disk(monkeypatch)
    with pytest.raises(OSError, match="checkpoint 4 could not be saved .*: its disk is full; make room there: those"):
        learner.close()


def test_a_monitor_that_is_away_does_not_delay_the_learners_save(tmp_path, monkeypatch):
    monkeypatch.setattr("boonta.nodes.learning.saving.REQUEST_S", 0.1)
    answers, asked = threading.Event(), []

    class Away(Monitor):
        def request_snapshot(self, number: int) -> None:
            asked.append(number)
            if not answers.wait(60.0):
                raise TimeoutError("the learner has waited for the monitor")

    monitor = Away("monitor", str(tmp_path), StopRule())
    settings = {"folder": str(tmp_path / "checkpoints"), "devices": 1, "beside": "replay"}
    learner = Learner("learner", tiny.make(SPEC), SPEC, BatchStore(), VariableServer("v"), monitor, **settings)
    learner.start()
    learner.step()
    learner.close()
    answers.set()
    assert numbers(tmp_path / "checkpoints") == asked == [1]


@pytest.mark.once
def test_a_fused_node(tmp_path, monkeypatch):
    anakin = node(tmp_path, 10_000)
    anakin.start()
    anakin._save_beside()
    anakin.step()
    anakin.step()
    with monkeypatch.context() as patch:
        fill_disk(patch)
        for _ in range(2):
            anakin._save_beside()
        anakin._saver.settle()
        assert "could not be saved" in anakin.report()["warnings"][0]
    anakin._save_beside()
    anakin._saver.settle()
    assert max(numbers(tmp_path)) == anakin._updates
    anakin.step()
    fill_disk(monkeypatch)
    told = f"checkpoint {anakin._updates} could not be saved .*: its disk is full; make room there: those before it are"
    with pytest.raises(OSError, match=told):
        anakin.close()


def test_a_learner_that_is_started_again_takes_back_its_updates_and_no_other_counter(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule())
    monitor.beat(report("actor/0", counts={"env_steps": 100.0}))

    def start() -> Learner:
        folder = str(tmp_path / "checkpoints")
        learner = Learner(
            "learner", tiny.make(SPEC), SPEC, BatchStore(), VariableServer("v"), monitor, folder=folder, devices=1
        )
        learner.start()
        return learner

    learner = start()
    for _ in range(3):
        learner.step()
    learner.heartbeat()
    learner._save()
    learner.step()
    learner.heartbeat()
    assert (monitor.totals()["env_steps"], monitor.totals()["updates"]) == (100.0, 4.0)
    again = start()
    assert (monitor.totals()["env_steps"], monitor.totals()["updates"]) == (100.0, 3.0)
    again.step()
    again.heartbeat()
    assert (monitor.totals()["env_steps"], monitor.totals()["updates"]) == (100.0, 4.0)
