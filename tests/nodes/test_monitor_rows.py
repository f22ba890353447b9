"""When the monitor writes rows of metrics."""

from __future__ import annotations

import json
import math
import types
from concurrent import futures

from boonta.nodes import metrics
from boonta.nodes.monitor import Monitor
from boonta.nodes.snapshots import counters
from boonta.nodes.watch.roster import Roster
from boonta.nodes.watch.stopping import StopRule
from boonta.tests.helpers.heartbeats import report


def test_rows_come_with_the_first_episode_and_then_at_growing_intervals(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("boonta.nodes.watch.row_log.time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monitor = Monitor("monitor", str(tmp_path), StopRule(), log_every_s=10.0)
    monitor.start()
    monitor.beat(report("actor/0"))
    written_at, episodes = [], {"return": [1.0]}
    for second in range(1, 51):
        now[0] = float(second)
        monitor.beat(report("actor/0", samples=episodes if second == 4 else None) | {"number": 1 + second})
        monitor.round()
        if (tmp_path / metrics.FILE).exists() and len(metrics.read(tmp_path)) > len(written_at):
            written_at.append(second)
    assert written_at == [4, 7, 12, 22, 32, 42]


def test_a_row_without_an_episode_comes_after_the_usual_time(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("boonta.nodes.watch.row_log.time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monitor = Monitor("monitor", str(tmp_path), StopRule(), log_every_s=10.0)
    monitor.start()
    monitor.beat(report("learner"))
    now[0] = 9.0
    monitor.round()
    assert not (tmp_path / metrics.FILE).exists()
    now[0] = 10.0
    monitor.round()
    assert len(metrics.read(tmp_path)) == 1


def test_a_run_that_goes_on_has_no_row_before_it_has_its_counters_back(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("boonta.nodes.watch.row_log.time", types.SimpleNamespace(monotonic=lambda: now[0]))
    before = {"seconds": 50.0, "updates": 7.0, "env_steps": 70.0}
    (tmp_path / metrics.FILE).write_text(json.dumps(before) + "\n")
    for resumes in (False, True):
        monitor = Monitor("monitor", str(tmp_path), StopRule(), log_every_s=10.0)
        monitor.start()
        monitor.beat(report("learner"))
        now[0] += 30.0  # It restores its checkpoint, or compiles.
        monitor.round()
        evaluation = {"eval_return": 1.0, "eval_version": 0.0}
        monitor.beat(report("evaluator") | {"metrics": evaluation})
        monitor.round()
        assert metrics.read(tmp_path) == [before]
        if resumes:
            monitor.resume("learner", {"seconds": 50.0, "updates": 7.0, "env_steps": 70.0})
            monitor.round()
        monitor.close()  # Where it was interrupted before it resumed, the last row isn't written, either.
    rows = metrics.read(tmp_path)
    assert len(rows) > 1 and all(row["updates"] == 7 and row["seconds"] >= 50 for row in rows)


def test_a_monitor_that_comes_back_knows_of_all_that_a_row_has_shown(tmp_path, monkeypatch):
    monkeypatch.setattr("boonta.nodes.monitor.SAVE_EVERY_S", math.inf)
    monitor = Monitor("monitor", str(tmp_path), StopRule())
    monitor.start()
    for number in (1, 2):
        monitor.beat(report("actor/0", counts={"env_steps": 10.0 * number}) | {"number": number})
    monitor._log.make()
    monitor.round()
    (row,) = metrics.read(tmp_path)
    assert counters.load(tmp_path).totals()["env_steps"] == row["env_steps"] == 20.0


def test_a_report_that_comes_twice_counts_its_samples_once(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule())
    monitor.start()
    for number, returned in ((1, 1.0), (1, 1.0), (2, 4.0), (2, 4.0), (1, 1.0)):
        monitor.beat(report("actor/0", samples={"return": [returned]}) | {"number": number, "acknowledged": number - 1})
    monitor._log.make()
    row = monitor.status()["row"]
    assert (row["return"], row["return_episodes"]) == (2.5, 2.0)


def test_each_evaluation_has_a_row(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("boonta.nodes.watch.row_log.time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monitor = Monitor("monitor", str(tmp_path), StopRule(), log_every_s=10.0)
    monitor.start()
    for number, (at, version) in enumerate([(5.0, 1), (10.0, 1), (10.1, 2), (10.2, 2), (10.3, 3)], start=1):
        now[0] = at
        evaluation = {"eval_return": version / 2, "eval_version": float(version)}
        monitor.beat(report("learner", counts={"updates": 10.0 * at}, **evaluation) | {"number": number})
        monitor.round()
    monitor.close()
    kept = [(row["eval_version"], round(row["updates_per_s"] or 0.0, 3)) for row in metrics.read(tmp_path)]
    assert kept == [(1, 10), (1, 10), (2, 10), (3, 10), (3, 10)]


def test_each_evaluation_may_end_the_run(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule(eval_return=0.95))
    monitor.start()
    for number, value in enumerate([0.5, 1.0, 0.5], start=1):  # All come before the monitor's next round.
        monitor.beat(report("learner", eval_return=value, eval_version=float(number)) | {"number": number})
    status = monitor.status()
    assert status["done"] and status["reason"] == "eval_return reached 1 (limit 0.95)"


def evaluations(monitor, evaluator: str, first: int, *returns: float) -> str:
    """Reports each of these twice, as heartbeats repeat the last one; returns why the program ends."""
    for version, value in enumerate(returns, start=first):
        for repeat in range(2):
            number = 2 * version + repeat
            monitor.beat(report(evaluator, eval_return=value, eval_version=float(version)) | {"number": number})
            monitor.round()
    return monitor.status()["reason"]


def test_evaluations_that_are_no_better_end_a_run_whose_patience_runs_out_and_each_counts_once(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule(patience=2))
    monitor.start()
    assert evaluations(monitor, "evaluator/0", 1, 0.25, 0.25, 0.5, 0.25) == ""
    reason = evaluations(monitor, "evaluator/0", 5, 0.5)
    assert reason == "patience: 2 evaluations in a row not above the best, 0.5 at 3 updates"
    assert monitor.status()["done"]


def test_of_several_evaluators_the_mean_counts_once_each_has_made_another_one(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule(patience=1))
    monitor.start()
    assert evaluations(monitor, "evaluator/0", 1, 0.5) == ""  # The best: the other one hasn't begun.
    assert evaluations(monitor, "evaluator/1", 1, 0.1) == ""
    assert evaluations(monitor, "evaluator/1", 2, 0.0, 0.0, 0.0) == ""
    assert evaluations(monitor, "evaluator/0", 7, 1.5) == ""  # A mean of 0.75.
    assert evaluations(monitor, "evaluator/0", 8, 0.0, 0.0) == ""
    reason = evaluations(monitor, "evaluator/1", 9, 1.5)
    assert reason == "patience: 1 evaluation in a row not above the best, 0.75 at 7 updates"


def test_an_evaluator_that_starts_again_has_no_evaluation_until_it_has_made_one(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule(patience=1))
    monitor.start()
    assert evaluations(monitor, "evaluator/0", 1, 0.5) == ""
    monitor.beat({**report("evaluator/0"), "life": "second"})
    assert "eval_return" not in monitor.totals()
    again = {**report("evaluator/0", eval_return=0.25, eval_version=2.0), "life": "second", "number": 2}
    assert "patience: 1 evaluation" in monitor.beat(again)["stop"]


def test_the_last_rows_rates_are_not_those_of_the_nodes_end_alone(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("boonta.nodes.watch.row_log.time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monitor = Monitor("monitor", str(tmp_path), StopRule(), log_every_s=10.0)
    monitor.start()
    for number, (at, updates) in enumerate([(0.0, 0.0), (10.0, 100.0), (12.0, 110.0)], start=1):
        now[0] = at
        monitor.beat(report("learner", counts={"updates": updates}) | {"number": number})
        monitor.round()
    monitor.close()
    assert [round(row["updates_per_s"], 2) for row in metrics.read(tmp_path)] == [10.0, 9.17]


def test_what_is_shown_at_the_end_is_the_last_row(tmp_path, monkeypatch):
    """Its returns and rates are of the end, as its totals are, and not those of the row before."""
    now = [0.0]
    monkeypatch.setattr("boonta.nodes.watch.row_log.time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monitor = Monitor("monitor", str(tmp_path), StopRule(env_steps=100), log_every_s=10.0)
    monitor.start()
    shown = []
    for number, (at, env_steps, returned) in enumerate([(0.0, 0, 1.0), (5.0, 50, 3.0), (5.5, 100, 5.0)], start=1):
        now[0] = at
        counts, samples = {"env_steps": env_steps}, {"return": [returned]}
        monitor.beat(report("actor/0", counts=counts, samples=samples) | {"number": number, "acknowledged": number - 1})
        monitor.round()
        shown.append(monitor.status()["row"])
    assert [row["return"] for row in shown] == [1.0, 2.0, 3.0] and shown[-1]["env_steps"] == 100
    monitor.close()
    last = metrics.read(tmp_path)[-1]
    assert {**last, "seconds": 0.0} == {**shown[-1], "seconds": 0.0}


def test_a_monitor_that_came_back_has_no_rates_of_the_time_before(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("boonta.nodes.watch.row_log.time", types.SimpleNamespace(monotonic=lambda: now[0]))

    def beat(monitor: Monitor, at: float, number: int) -> None:
        now[0] = at
        counted = report("learner", counts={"updates": 10.0 * at})
        monitor.beat(counted | {"number": number, "acknowledged": number - 1})
        monitor.round()

    first = Monitor("monitor", str(tmp_path), StopRule(), log_every_s=10.0)
    first.start()
    beat(first, 100.0, 1)
    first._save_counters()
    rows = []
    for times in ([104.0], [104.0, 110.0], [104.0, 110.0, 114.0]):  # It dies again, after one heartbeat or several.
        (tmp_path / metrics.FILE).unlink(missing_ok=True)
        now[0] = 102.0
        again = Monitor("monitor", str(tmp_path), StopRule(), log_every_s=10.0)
        again.start()
        for number, at in enumerate(times, start=2):
            beat(again, at, number)
            if at == 110.0:
                again._log.make()  # The row that it leaves out.
        again.stop_program("its end")
        assert all((rate or 0.0) < 10.1 for name, rate in again.status()["row"].items() if name == "updates_per_s")
        again.close()
        rows.append(
            [row["updates_per_s"] for row in metrics.read(tmp_path)] if (tmp_path / metrics.FILE).exists() else []
        )
    assert rows[0] == [] and rows[2] == [10.0], rows
    assert rows[1] in ([], [None], [0.0])


def test_whoever_makes_a_row_looks_at_the_nodes_while_no_heartbeat_can_add_one(tmp_path, monkeypatch):
    """Heartbeats come in other threads, also before the first row and as the log is closed."""
    monitor, held = Monitor("monitor", str(tmp_path), StopRule()), []
    reports = Roster.reports.fget

    def is_free() -> bool:
        free = monitor._state.acquire(blocking=False)
        if free:
            monitor._state.release()
        return free

    def look(self: Roster) -> list:
        held.append(not other.submit(is_free).result())
        return reports(self)

    monkeypatch.setattr(Roster, "reports", property(look))
    with futures.ThreadPoolExecutor(1) as other:
        monitor.start()
        monitor.beat(report("actor/0"))
        monitor.close()
    assert len(held) >= 2 and all(held)


def test_returns_that_are_not_finite_do_not_end_the_monitor(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule())
    monitor.start()
    returns = [math.inf, -math.inf, math.nan, *[1.0] * 97]
    monitor.beat(report("actor/0", counts={"env_steps": 10.0}, samples={"return": returns}))
    monitor.beat(report("evaluator/0", eval_return=math.nan, eval_return_se=math.nan, eval_version=0.0))
    monitor._log.make()
    monitor.round()
    *_, row = metrics.read(tmp_path)
    assert row["return_episodes"] == 100.0
    assert {row[name] for name in ("return", "return_se", "return_start", "eval_return", "eval_return_se")} == {None}
