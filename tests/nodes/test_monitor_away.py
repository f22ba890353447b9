"""Nodes without which a program goes on: they never come, leave, fall silent, or join later."""

from __future__ import annotations

import pytest

from boonta.nodes.monitor import Monitor
from boonta.nodes.snapshots import counters
from boonta.nodes.watch import rows
from boonta.nodes.watch.stopping import StopRule
from boonta.tests.helpers.heartbeats import report

ACTORS = ["actor/0", "actor/1"]


def impatient(folder) -> Monitor:
    """A monitor for which a node is lost as soon as it has looked."""
    node = Monitor("monitor", str(folder), StopRule(env_steps=100), silent_s=0.0, lost_s=0.0, start_s=0.0)
    node.start()
    node.expect(["learner", *ACTORS], ACTORS)
    return node


def test_actors_that_never_come_or_fall_silent_end_nothing_and_are_shown(tmp_path):
    monitor = impatient(tmp_path)
    monitor.beat(report("actor/0"))
    monitor.expect(ACTORS, ACTORS)
    monitor.round()
    status = monitor.status()
    assert status["reason"] == "" and set(status["away"]) == set(ACTORS)
    monitor.beat({**report("actor/0"), "number": 2})
    assert set(monitor.status()["away"]) == {"actor/1"}


@pytest.mark.parametrize("known", [True, False])
def test_a_learner_that_never_comes_or_falls_silent_ends_it_all_the_same(tmp_path, known):
    monitor = impatient(tmp_path)
    if known:
        monitor.beat(report("learner"))
    monitor.round()
    assert monitor.status()["failure"].startswith("learner ") and "learner" not in monitor.status()["away"]


def test_an_actor_that_leaves_ends_nothing_but_one_that_fails_does(tmp_path):
    monitor = impatient(tmp_path)
    for name in ACTORS:
        monitor.beat(report(name, counts={"env_steps": 3.0}))
    monitor.report_end("actor/0", "")
    assert monitor.status()["reason"] == "" and set(monitor.status()["away"]) == {"actor/0"}
    monitor.report_end("actor/1", "actor/1 failed while acting: ValueError: bad")
    assert monitor.status()["failure"] == "actor/1 failed while acting: ValueError: bad"


def test_a_server_that_comes_back_may_leave_but_not_for_ever(tmp_path):
    monitor = impatient(tmp_path)
    monitor._start_s = 1e9
    monitor.expect(["replay", "learner"], [], ["replay"])
    monitor.beat(report("replay", end_order=3))
    monitor.report_end("replay", "")
    monitor.round()
    assert monitor.status()["reason"] == "" and set(monitor.status()["away"]) == {"replay"}
    monitor.beat({**report("replay", end_order=3), "life": "second"})
    assert not monitor.status()["away"]
    monitor.report_end("replay", "")
    monitor._start_s = 0.0
    monitor._roster.expect([], [], ["replay"])  # The learner, which has never come, is not what is meant here.
    monitor.round()
    assert "replay has left, and has not come back for " in monitor.status()["failure"]


def test_an_actor_that_leaves_may_stay_away_also_where_a_platform_starts_it_again(tmp_path):
    monitor = impatient(tmp_path)
    monitor.expect(ACTORS, ACTORS, ACTORS)
    monitor.beat(report("actor/0"))
    monitor.report_end("actor/0", "")
    monitor.round()
    assert monitor.status()["reason"] == "" and "actor/0" in monitor.status()["away"]


@pytest.mark.parametrize(("name", "returning"), [("replay", []), ("learner", ["replay"])])
def test_the_end_of_a_node_that_does_not_come_back_is_the_programs(tmp_path, name, returning):
    monitor = impatient(tmp_path)
    monitor.expect(["replay", "learner"], [], returning)
    monitor.beat(report(name))
    monitor.report_end(name, "")
    assert monitor.status()["failure"] == f"{name} ended before the program did"


def test_a_server_that_ends_because_the_program_does_is_not_missed(tmp_path):
    monitor = impatient(tmp_path)
    monitor.expect([], [], ["replay"])
    monitor.beat(report("replay", end_order=3))
    monitor.stop_program("enough")
    monitor.report_end("replay", "")
    monitor.round()
    assert monitor.status()["failure"] == "" and monitor.status()["reason"] == "enough"


@pytest.mark.parametrize("failure", ["", "actor/7 failed while acting: ValueError: bad"])
def test_whatever_becomes_of_an_actor_that_has_joined_its_steps_count(tmp_path, failure):
    monitor = impatient(tmp_path)
    monitor.expect([])
    monitor.beat({**report("actor/7", counts={"env_steps": 3.0}), "joined": True, "stuck": "has been acting for 301 s"})
    monitor.round()
    assert set(monitor.status()["away"]) == {"actor/7"}
    monitor.report_end("actor/7", failure)
    monitor.beat(report("actor/8", counts={"env_steps": 4.0}))
    status = monitor.status()
    assert status["reason"] == "" and status["totals"]["env_steps"] == 7.0


def test_nodes_that_are_to_join_get_numbers_that_nobody_has_or_had(tmp_path):
    monitor = impatient(tmp_path)
    assert monitor.admit("actor", 2, 3) == 2
    assert monitor.admit("actor", 2, 1) == 5
    monitor.beat({**report("actor/9"), "joined": True})
    monitor.round()
    assert monitor.admit("actor", 2, 1) == 10 and monitor.admit("explorer", 1, 1) == 1
    monitor._save_counters()
    again = impatient(tmp_path)
    assert again.admit("actor", 2, 1) == 11


def test_a_monitor_that_comes_back_gives_no_number_again_and_keeps_the_counters_until_it_knows_whose_they_are(tmp_path):
    monitor = impatient(tmp_path)
    assert monitor.admit("actor", 2, 3) == 2
    monitor.beat(report("learner", counts={"updates": 5.0}))
    for first in (5, 6):  # It dies twice, before anybody has reported to it.
        again = impatient(tmp_path)
        assert again.admit("actor", 2, 1) == first
    again = impatient(tmp_path)
    again.beat({**report("learner", counts={"updates": 6.0}), "number": 2, "acknowledged": 1})
    assert again.status()["failure"] == "" and again.totals()["updates"] == 6.0
    assert again.admit("actor", 2, 1) == 7
    assert impatient(tmp_path).admit("actor", 2, 1) == 8


def test_an_actor_of_another_build_that_would_join_is_refused_alone(tmp_path):
    monitor = impatient(tmp_path)
    monitor.build = "flags 1"
    reply = monitor.beat({**report("actor/7", counts={"env_steps": 3.0}), "joined": True, "build": "flags 2"})
    assert reply["stop"] == reply["failure"] == "actor/7 is flags 2, but the monitor is flags 1: start all alike"
    monitor.report_end("actor/7", "")
    status = monitor.status()
    assert status["reason"] == "" and status["nodes"]["actor/7"]["gone"] and "env_steps" not in status["totals"]


@pytest.mark.parametrize("saved", [True, False])
def test_an_actor_that_joined_an_earlier_monitor_counts_on_only_if_that_ones_counters_are_there(tmp_path, saved):
    monitor = impatient(tmp_path)
    joined = {**report("actor/7", counts={"env_steps": 3.0}), "joined": True}
    monitor.beat(joined)
    if saved:
        monitor._save_counters()
    else:
        (tmp_path / counters.FILE).unlink()
    again = impatient(tmp_path)
    reply = again.beat({**joined, "number": 2, "acknowledged": 1})
    status = again.status()
    assert status["reason"] == "" and reply["stop"] == reply["failure"]
    if saved:
        assert reply["stop"] == "" and status["totals"]["env_steps"] == 3.0
    else:
        assert "actor/7 has counted for an earlier monitor" in reply["stop"] and "env_steps" not in status["totals"]


def test_nodes_that_left_have_no_part_in_metrics_unless_nobody_else_measures_them(tmp_path):
    evaluators = ["evaluator/0", "evaluator/1"]
    monitor = impatient(tmp_path)
    monitor.expect(evaluators, evaluators)
    for name, value in zip(evaluators, (1.0, 3.0)):
        monitor.beat(report(name, eval_return=value, eval_version=1.0))
    assert monitor.totals()["eval_return"] == 2.0
    monitor.report_end("evaluator/1", "")
    monitor._roster.peers["evaluator/0"].silent_s = -1e9  # It is there.
    monitor.round()
    monitor._log.make()
    row = monitor.status()["row"]
    assert monitor.totals()["eval_return"] == row["eval_return"] == 1.0
    assert "rss_mb/evaluator/0" in row and "rss_mb/evaluator/1" not in row
    monitor.beat({**report("evaluator/1", eval_return=5.0, eval_version=2.0), "life": "second"})
    assert monitor.totals()["eval_return"] == monitor.status()["row"]["eval_return"] == 3.0
    for name in evaluators:
        monitor.report_end(name, "")
    monitor.round()
    assert monitor.totals()["eval_return"] == 3.0


def test_the_end_waits_for_no_actor_that_is_away(tmp_path):
    monitor = impatient(tmp_path)
    monitor.expect(ACTORS, ACTORS)
    monitor.beat(report("actor/0", counts={"env_steps": 100.0}))
    monitor.round()  # It is silent from now on, and the other one has never come.
    assert "env_steps reached 100" in monitor.beat(report("replay", end_order=2))["stop"]
    monitor.beat({**report("actor/0", counts={"env_steps": 100.0}), "number": 2})
    monitor.report_end("actor/0", "")
    monitor.report_end("replay", "")
    assert set(monitor.status()["away"]) == {"actor/1"}  # The other one has left because of the end.
    monitor.round()
    assert monitor.stopping and monitor.status()["failure"] == ""


def test_a_node_that_comes_or_goes_shifts_no_share_of_the_others():
    def at(time_s, **seconds):
        reports = [{**report(f"actor/{i}"), "seconds": spent} for i, spent in enumerate(seconds.values())]
        return rows.mark(time_s, {}, reports)

    stayed = {"acting": 900.0, "waiting for room": 100.0}
    later = {"acting": 908.0, "waiting for room": 102.0}
    old, new = at(1000.0, stays=stayed, goes={"acting": 400.0}), at(1010.0, stays=later, goes={"acting": 400.0})
    assert rows.shares(old, new) == {"actor/acting": 0.8, "actor/waiting_for_room": 0.2}
    joined = at(1010.0, stays=later, goes={"acting": 400.0}, joins={"starting": 30.0, "acting": 10.0})
    assert rows.shares(old, joined) == {
        "actor/acting": pytest.approx((0.8 + 0.25) / 2),
        "actor/waiting_for_room": pytest.approx(0.1),
        "actor/starting": pytest.approx(0.75 / 2),
    }
