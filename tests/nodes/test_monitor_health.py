"""What the monitor makes of returns, evaluations and the health of learning."""

from __future__ import annotations

import pytest

from boonta.nodes import metrics
from boonta.nodes.monitor import Monitor
from boonta.nodes.watch.stopping import StopRule, failure_of, has_collapsed
from boonta.tests.helpers.heartbeats import report


def test_a_collapse_ends_what_is_to_end_by_it():
    assert StopRule(on_collapse=True).reached({}, collapsed=True) == "collapse"
    assert StopRule(on_collapse=True).reached({}) == StopRule().reached({}, collapsed=True) == ""
    assert StopRule(on_collapse=True, updates=5).reached({"updates": 5.0}, collapsed=True).startswith("updates")


def learning(monitor, updates: int, **changed: float) -> None:
    """Reports so many updates to a monitor that writes a row in each round."""
    metrics = {"grad_norm": 0.3, "eval_version": float(updates), "eval_return": 0.5, **changed}
    monitor.beat({**report("learner", counts={"updates": float(updates)}, **metrics), "number": updates})
    monitor.round()


def test_the_health_of_learning_is_judged_shown_and_ends_the_run(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule(on_collapse=True), log_every_s=0.0)
    monitor.start()
    for updates in range(1, 11):
        learning(monitor, updates)
    assert not monitor.warnings and monitor.status()["health"] == {}
    learning(monitor, 11, grad_norm=0.0)
    learning(monitor, 12, grad_norm=0.0)
    assert not monitor.warnings
    monitor.close()

    again = Monitor("monitor", str(tmp_path), StopRule(on_collapse=True), log_every_s=0.0)
    again.start()  # It knows what was before, and that it began then.
    learning(again, 13, grad_norm=0.0)
    assert again.status()["health"].keys() == {"gradient vanished"}
    (warning,) = again.warnings
    assert warning.startswith("gradient vanished: grad_norm is 0; ")
    again.round()
    status = again.status()
    assert status["done"] and status["reason"] == f"collapse: {warning}" and has_collapsed(status)
    assert failure_of(status) == ""
    again.close()
    shown = {(row["updates"], row["health/gradient_vanished"]) for row in metrics.read(tmp_path) if "updates" in row}
    assert shown == {(float(updates), float(updates == 13)) for updates in range(1, 14)}


def test_rows_show_the_error_of_means_the_first_returns_and_the_age_of_evaluations(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule(), log_every_s=0.0)
    monitor.start()
    monitor.beat(report("actor/0", samples={"return": [float(i % 2) for i in range(100)]}))
    monitor.beat({**report("actor/0", samples={"return": [5.0, 5.0]}), "number": 2, "acknowledged": 1})
    monitor.beat(report("learner", counts={"updates": 70.0}))
    evaluation = {"eval_version": 50.0, "eval_return_se": 3.0}
    monitor.beat(report("evaluator/0", **evaluation, eval_return=1.0))
    reply = monitor.beat(
        report("evaluator/1", **evaluation | {"eval_return_se": 4.0}, eval_return=2.0, eval_started=60.0)
    )
    assert reply["evaluation"] == {
        "eval_return": 1.5,
        "eval_return_se": 2.5,
        "eval_version": 50.0,
        "eval_started": 60.0,
    }
    monitor.round()
    row = monitor.status()["row"]
    assert row["return_start"] == 0.5 and row["return"] == 0.59 and row["return_episodes"] == 100
    assert row["return_se"] == pytest.approx(0.0806, abs=1e-4)
    assert row["eval_age"] == 20.0 and row["eval_return_se"] == 2.5


def test_the_first_returns_of_trained_params_are_no_start(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule(), log_every_s=0.0)
    monitor.start()
    monitor.beat(report("learner"))
    monitor.resume("learner", {"updates": 10.0})
    monitor.beat(report("actor/0", samples={"return": [1.0] * 100}))
    monitor.round()
    assert "return_start" not in monitor.status()["row"]
