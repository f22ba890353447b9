from __future__ import annotations

import json
import re
import time

import pytest

from boonta.nodes import metrics
from boonta.nodes.monitor import Monitor
from boonta.nodes.sinks.base import TrackedRun
from boonta.nodes.sinks.files import JsonLines
from boonta.nodes.watch.status import STATUS
from boonta.nodes.watch.stopping import StopRule
from boonta.tests.helpers.heartbeats import report

NAN = float("nan")


@pytest.fixture
def monitor(tmp_path):
    node = Monitor("monitor", str(tmp_path), StopRule(env_steps=100), log_every_s=0.0)
    node.start()
    return node


def test_counts_add_up_over_nodes_and_a_repeated_heartbeat_counts_once(monitor):
    monitor.beat(report("actor/0", counts={"env_steps": 10.0}))
    monitor.beat(report("actor/0", counts={"env_steps": 10.0}))
    reply = monitor.beat(report("actor/1", counts={"env_steps": 5.0}))
    assert reply["counts"]["env_steps"] == 15.0
    assert reply["stop"] == ""


def test_goes_on_counting_from_a_checkpoint(monitor):
    monitor.beat(report("learner"))
    monitor.resume("learner", {"env_steps": 1000.0, "seconds": 50.0})
    totals = monitor.beat(report("actor/0", counts={"env_steps": 5.0}))["counts"]
    assert totals["env_steps"] == 1005.0
    assert totals["seconds"] >= 50.0


@pytest.mark.parametrize(
    ("rule", "totals", "message"),
    [
        (StopRule(env_steps=10), {"env_steps": 12.0}, "env_steps reached 12"),
        (StopRule(updates=5), {"updates": 5.0}, "updates reached 5"),
        (StopRule(env_steps=10**7), {"env_steps": 10_000_580.0}, "env_steps reached 10,000,580 (limit 10,000,000)"),
        (StopRule(seconds=1.5), {"seconds": 2.0}, "seconds reached 2 (limit 1.5)"),
        (StopRule(eval_return=18), {"eval_return": 18.5}, "eval_return reached 18.5"),
        (StopRule(eval_return=-20), {}, ""),
        (StopRule(env_steps=10), {"env_steps": 9.0}, ""),
        (StopRule(), {"env_steps": 1e9}, ""),
    ],
)
def test_stop_rules(rule, totals, message):
    reached = rule.reached(totals)
    assert reached.startswith(message) and bool(reached) == bool(message)


@pytest.mark.parametrize(("field", "value"), [("updates", 0), ("seconds", NAN), ("eval_return", NAN), ("patience", 0)])
def test_an_impossible_stop_rule_is_refused(field, value):
    with pytest.raises(ValueError, match=f"stop.{field} is {value}; it must be "):
        StopRule(**{field: value})


def test_when_the_rule_is_reached_workers_end_before_services(monitor):
    monitor.beat(report("replay", end_order=2))
    assert not monitor.beat(report("actor/0", counts={"env_steps": 100.0}))["ending"]
    monitor.round()
    reply = monitor.beat(report("replay", end_order=2))
    assert reply["stop"] == "" and reply["ending"]
    assert "env_steps reached 100" in monitor.beat(report("actor/0"))["stop"]
    monitor.report_end("actor/0", "")
    assert "env_steps reached 100" in monitor.beat(report("replay", end_order=2))["stop"]
    assert not monitor.stopping
    monitor.report_end("replay", "")
    assert monitor.status()["failure"] == ""
    monitor.round()
    assert monitor.stopping


def test_a_server_that_calls_another_ends_before_it(monitor):
    servers = {"variables": 2, "inference": 1}
    for name, serves in servers.items():
        monitor.beat(report(name, end_order=serves))
    monitor.beat(report("actor/0", counts={"env_steps": 100.0}))
    monitor.round()

    def stops() -> list[bool]:
        return [bool(monitor.beat(report(name, end_order=serves))["stop"]) for name, serves in servers.items()]

    assert stops() == [False, False]
    monitor.report_end("actor/0", "")
    assert stops() == [False, True]
    monitor.report_end("inference", "")
    assert bool(monitor.beat(report("variables", end_order=2))["stop"])


def test_the_status_is_on_disk_too_which_counts_as_no_look_of_the_launcher(monitor, tmp_path):
    monitor.beat(report("learner", counts={"env_steps": 100.0}, samples={"return": [NAN]}))
    shown = json.loads((tmp_path / STATUS).read_text(), parse_constant=pytest.fail)  # JSON has no NaN.
    assert shown["totals"]["env_steps"] == 100.0 and shown["reason"] == ""
    monitor.round()
    monitor.report_end("learner", "")
    monitor.beat(report("actor/0"))  # A new node: the counters and the status are written at once.
    monitor.report_end("actor/0", "")
    monitor.round()
    assert not monitor.stopping  # The launcher doesn't know yet how they ended.
    monitor.close()
    shown = json.loads((tmp_path / STATUS).read_text(), parse_constant=pytest.fail)
    assert shown["nodes"]["learner"]["gone"] and shown["row"]["return"] is None and time.time() - shown["at"] < 60


def test_the_monitor_stays_until_the_launcher_knows_how_everybody_ended(monitor):
    monitor.beat(report("learner", counts={"env_steps": 100.0}))
    monitor.round()
    monitor.status()
    monitor.report_end("learner", "learner failed while saving a checkpoint: OSError: disk full")
    monitor.round()
    assert not monitor.stopping
    assert monitor.status()["failure"] == "learner failed while saving a checkpoint: OSError: disk full"
    monitor.round()
    assert monitor.stopping


def test_a_heartbeat_overtaken_by_the_goodbye_changes_nothing(monitor):
    monitor.beat(report("actor/0", counts={"env_steps": 100.0}))
    monitor.round()
    monitor.report_end("actor/0", "")
    monitor.beat(report("actor/0"))
    assert monitor.status()["nodes"]["actor/0"]["gone"]


def test_a_heartbeat_overtaken_by_a_later_one_changes_nothing(monitor):
    monitor.beat({**report("actor/0", counts={"env_steps": 9.0}), "number": 2})
    reply = monitor.beat({**report("actor/0", counts={"env_steps": 5.0}), "started": False})
    assert reply["counts"]["env_steps"] == 9.0 and monitor.status()["nodes"]["actor/0"]["started"]
    monitor.beat({**report("actor/0", counts={"env_steps": 2.0}), "life": "second"})
    assert monitor.status()["totals"]["env_steps"] == 11.0


def supervised(folder) -> Monitor:
    node = Monitor("monitor", str(folder), StopRule(), silent_s=0.0, lost_s=0.0, supervised=True)
    node.start()
    return node


def test_under_a_supervisor_the_monitor_names_who_failed_or_hangs_and_goes_on(tmp_path):
    monitor = supervised(tmp_path)
    monitor.beat(report("actor/0"))
    monitor.beat({**report("actor/1"), "stuck": "has been acting for 301 s, its limit is 300 s"})
    monitor.beat({**report("actor/2")})
    monitor.report_end("actor/2", "actor/2 failed while acting: ValueError: bad")
    assert monitor.status()["nodes"]["actor/1"]["hung"] == "has been acting for 301 s, its limit is 300 s"
    monitor.round()
    status = monitor.status()
    assert status["reason"] == status["failure"] == ""
    assert re.match(r"has sent no heartbeat for \d+ s; it was waiting", status["nodes"]["actor/0"]["hung"])
    assert status["nodes"]["actor/2"]["failure"] == "actor/2 failed while acting: ValueError: bad"
    monitor.beat({**report("actor/2"), "life": "second"})
    assert not monitor.status()["nodes"]["actor/2"]["gone"]


def test_without_a_supervisor_a_stuck_node_fails_the_program(monitor):
    monitor.beat({**report("actor/0"), "stuck": "has been acting for 301 s, its limit is 300 s"})
    monitor.round()
    assert monitor.status()["failure"] == "actor/0 has been acting for 301 s, its limit is 300 s"


def test_a_silent_node_is_named_before_the_program_fails(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule(), silent_s=0.0, lost_s=1e9)
    monitor.start()
    monitor.beat(report("actor/0"))
    monitor.round()
    assert "has sent no heartbeat" in monitor.status()["nodes"]["actor/0"]["hung"]
    assert monitor.status()["failure"] == ""


def test_a_node_that_starts_may_be_silent_for_longer(tmp_path):
    monitor = supervised(tmp_path)
    monitor.beat({**report("actor/0"), "started": False})
    monitor.round()
    assert monitor.status()["nodes"]["actor/0"]["hung"] == ""


def test_the_end_by_a_stop_rule_is_told_apart(monitor):
    monitor.stop_program("the monitor was asked to stop")
    assert not monitor.status()["done"]
    monitor.beat(report("actor/0", counts={"env_steps": 100.0}))
    monitor.round()
    assert not monitor.status()["done"]  # The rule is reached, but it is not why the program ends.


def test_a_failure_is_kept_with_its_first_cause(monitor):
    monitor.beat(report("actor/0"))
    monitor.report_end("actor/0", "actor/0 failed while acting: ValueError: bad")
    monitor.report_end("learner", "learner failed while waiting")
    assert monitor.status()["failure"] == "actor/0 failed while acting: ValueError: bad"
    assert monitor.beat(report("learner"))["stop"]


def test_a_node_that_leaves_early_is_a_failure(monitor):
    monitor.beat(report("actor/0"))
    monitor.report_end("actor/0", "")
    assert monitor.status()["failure"] == "actor/0 ended before the program did"


def test_a_silent_node_is_named_with_what_it_was_waiting_for(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule(), silent_s=0.0, lost_s=0.0)
    monitor.start()
    monitor.beat(report("learner"))
    monitor.round()
    assert "learner has sent no heartbeat" in monitor.status()["failure"]
    assert "it was waiting for trajectories" in monitor.status()["failure"]


def test_a_node_that_hangs_before_its_first_heartbeat_is_named(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule(), start_s=0.0)
    monitor.start()
    monitor.expect(["learner", "actor/0"])
    monitor.beat(report("learner"))
    monitor.round()
    assert re.fullmatch(r"actor/0 sent no heartbeat since the launch, \d+ s ago", monitor.status()["failure"])


def test_a_node_may_take_its_time_to_start(monitor):
    monitor.expect(["actor/0"])
    monitor.round()
    assert monitor.status()["reason"] == ""


def test_what_several_nodes_measure_is_their_mean_and_each_ones_own(tmp_path):
    monitor = Monitor("monitor", str(tmp_path), StopRule(eval_return=2.0), log_every_s=0.0)
    monitor.start()
    monitor.beat(report("learner", loss=0.5))
    monitor.beat(report("evaluator/0", eval_return=1.0))
    monitor.round()
    assert monitor.status()["reason"] == ""
    monitor.beat(report("evaluator/1", eval_return=4.0))
    monitor.round()
    assert monitor.status()["reason"] == "eval_return reached 2.5 (limit 2)"
    monitor.close()
    first, last = metrics.read(tmp_path)[0], metrics.read(tmp_path)[-1]
    assert first["eval_return"] == 1.0 and "eval_return/evaluator/0" not in first
    assert last["eval_return"] == 2.5
    assert (last["eval_return/evaluator/0"], last["eval_return/evaluator/1"]) == (1.0, 4.0)
    assert last["loss"] == 0.5 and "loss/learner" not in last


def test_a_row_cut_short_by_a_kill_costs_no_other(tmp_path):
    for _ in range(2):
        writer = JsonLines(print)
        writer.begin(TrackedRun(tmp_path))
        writer.write({"loss": 1.0})
        writer.close()
        with open(tmp_path / "metrics.jsonl", "a") as file:
            file.write('{"loss": 2.')
    assert metrics.read(tmp_path) == [{"loss": 1.0}, {"loss": 1.0}]


def test_rows_hold_rates_means_shares_and_memory(monitor, tmp_path):
    monitor.beat(report("actor/0", counts={"env_steps": 10.0}, samples={"return": [1.0, 2.0]}))
    monitor.beat(report("learner", loss=0.5, infinite=float("inf")))
    monitor.round()
    monitor.close()
    row = metrics.read(tmp_path)[0]
    assert row["env_steps"] == 10 and row["env_steps_per_s"] > 0
    assert row["return"] == 1.5 and row["loss"] == 0.5 and row["infinite"] is None
    assert row["rss_mb/actor/0"] == 100.0
    assert row["share/learner/updating"] > 0
    assert list(tmp_path.glob("tensorboard/events*"))


def test_a_node_that_comes_back_is_counted_on(monitor):
    monitor.beat(report("actor/0", counts={"env_steps": 10.0}))
    back = {**report("actor/0", counts={"env_steps": 3.0}), "life": "second"}
    assert monitor.beat(back)["counts"]["env_steps"] == 13.0
    assert monitor.beat(back)["counts"]["env_steps"] == 13.0


def test_a_monitor_that_comes_back_without_its_counters_fails_the_program(monitor):
    reply = monitor.beat({**report("learner"), "acknowledged": 1})
    assert "came back without its counters: learner" in reply["stop"] and reply["failure"] == reply["stop"]


def test_nodes_built_from_something_else_are_refused_by_name(monitor):
    monitor.build = "flags 1"
    assert not monitor.beat({**report("actor/0"), "build": "flags 1"})["failure"]
    failure = monitor.beat({**report("actor/1"), "build": "flags 2"})["failure"]
    assert failure == "actor/1 is flags 2, but the monitor is flags 1: start all alike"
