"""What hosts report to each other with an update, and what all of them decide."""

from __future__ import annotations

import math
from concurrent import futures

import jax
import numpy as np
import pytest

from boonta.nodes.base import AWAY_S, Node
from boonta.nodes.hosts import agreement
from boonta.nodes.hosts.agreement import Agreement, Decision, HostReport, SeveralHosts, decode, encode, merge
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.hosts.host_monitor import HostMonitor
from boonta.nodes.watch.stopping import StopRule
from boonta.tests.helpers.heartbeats import report

NOTHING = HostReport(0, 0, 0, 0, 0, math.nan, 0, 0, 0, 0)


def monitor(tmp_path, index: int = 0, **rule) -> HostMonitor:
    return HostMonitor("monitor", str(tmp_path), StopRule(**rule), Hosts("here:1", 2, index))


def beat(monitor: HostMonitor, **counts: float) -> dict:
    report = {
        "name": "actor/0",
        "counts": counts,
        "samples": {},
        "metrics": {},
        "seconds": {},
        "life": "1",
        "number": 1,
    }
    return monitor.beat(
        {
            **report,
            "end_order": 0,
            "acknowledged": 0,
            "started": True,
            "saves": True,
            "stuck": "",
            "joined": False,
            "build": "",
            "warnings": [],
            "activity": "",
            "activity_s": 0.0,
            "saving": False,
            "rss_mb": 1,
            "process": "host/1",
        }
    )


def test_a_report_survives_as_integers(tmp_path):
    one = monitor(tmp_path)
    beat(one, env_steps=2.0**53 - 1, frames=12.0)
    bits = encode(one.host_report(saving=True))
    assert bits.dtype == np.int32
    report = decode(bits)
    assert (report.env_steps, report.frames, report.ending, report.saving) == (2.0**53 - 1, 12.0, 0.0, 1.0)
    assert math.isnan(report.eval_return)


def test_merged_reports_add_counters_and_take_the_longest_age():
    reports = [NOTHING._replace(env_steps=3, seconds=7, ending=1), NOTHING._replace(env_steps=4, seconds=5, frames=2)]
    merged = merge(reports, updates=9)
    others = {"stale_sequences": 0, "reanalyzed_steps": 0, "reanalyzed_sequences": 0}
    wanted = {"env_steps": 7, "frames": 2, "episodes": 0, "sequences": 0, "updates": 9, "seconds": 7, **others}
    assert merged.totals == wanted and merged.ending == (0,) and not merged.saving


def test_counters_are_those_of_all_hosts(tmp_path):
    one = monitor(tmp_path)
    beat(one, env_steps=10.0)
    one.follow([NOTHING._replace(env_steps=10), NOTHING._replace(env_steps=32)], updates=1)
    assert one.totals()["env_steps"] == 42.0
    assert one.host_report(saving=False).env_steps == 10.0  # The report has only its own steps.


def test_what_is_left_out_or_renewed_is_added_up_and_actors_replace_what_their_own_host_left_out(tmp_path):
    one = monitor(tmp_path)
    beat(one, stale_sequences=6.0, reanalyzed_steps=3.0)
    one.follow([one.host_report(False), NOTHING._replace(stale_sequences=10, reanalyzed_steps=4)], updates=1)
    assert one.totals()["stale_sequences"] == 16.0 and one.totals()["reanalyzed_steps"] == 7.0
    slots_of_both, own_slots = 8, 4
    answer = beat(one, stale_sequences=6.0, reanalyzed_steps=3.0)
    assert answer["left_out"] / slots_of_both == 6.0 / own_slots
    assert answer["counts"]["stale_sequences"] == 16.0  # The learner saves these.
    assert "reanalyzed_sequences" not in answer["counts"]  # Nobody counts them here.


def test_a_rule_that_hosts_fulfil_together_ends_all_of_them(tmp_path):
    reports = [NOTHING._replace(env_steps=60), NOTHING._replace(env_steps=40)]
    for index in (0, 1):
        one = monitor(tmp_path, index, env_steps=100)
        one.follow(reports, updates=7)
        assert one.agreed and "env_steps reached 100" in one.status()["reason"] and not one.status()["failure"]
    by_updates = monitor(tmp_path, 0, updates=7)
    by_updates.follow(reports, updates=6)
    assert not by_updates.agreed
    by_updates.follow(reports, updates=7)
    assert by_updates.agreed


def test_only_the_first_hosts_collapse_counts():
    collapsed = NOTHING._replace(collapsed=1)
    assert merge([collapsed, NOTHING], 1).collapsed and not merge([NOTHING, collapsed], 1).collapsed


def test_only_the_first_hosts_evaluation_and_due_checkpoint_count(tmp_path):
    one = monitor(tmp_path, 1, eval_return=0.5)
    other = NOTHING._replace(eval_return=1.0, saving=1)
    assert not one.follow([NOTHING, other], updates=1).saving and not one.agreed
    assert one.follow([other, NOTHING], updates=2).saving and one.agreed


def test_the_patience_of_all_hosts_runs_out_with_the_first_ones_evaluations(tmp_path):
    """Which travel with each update until there are others."""
    monitors = [monitor(tmp_path, index, patience=2) for index in (0, 1)]
    for update, (version, value) in enumerate([(1, 0.5), (1, 0.5), (2, 0.5), (2, 0.5), (3, 0.25)]):
        assert not any(one.agreed for one in monitors)
        first = decode(encode(NOTHING._replace(eval_return=value, eval_version=version)))
        for one in monitors:
            one.follow([first, NOTHING], updates=update)
    reason = "patience: 2 evaluations in a row not above the best, 0.5 at 1 updates"
    assert [one.status()["reason"] for one in monitors] == [reason, reason] and all(one.agreed for one in monitors)


def test_a_host_reports_the_version_of_its_last_evaluation(tmp_path):
    one = monitor(tmp_path)
    assert math.isnan(one.host_report(saving=False).eval_version)
    one.beat(report("evaluator/0", eval_return=0.5, eval_version=7.0))
    assert one.host_report(saving=False).eval_version == 7.0


def test_of_several_evaluators_a_host_reports_another_version_once_each_has_evaluated_again(tmp_path):
    one, seen = monitor(tmp_path), []
    for i, name in enumerate("ababa", start=1):
        one.beat(report(f"evaluator/{name}", eval_return=0.5, eval_version=float(i)) | {"number": i})
        seen.append(one.host_report(saving=False).eval_version)
    assert seen == [1.0, 1.0, 3.0, 3.0, 5.0]


def test_returns_that_are_not_numbers_try_the_patience_of_all_hosts_too(tmp_path):
    one = monitor(tmp_path, patience=2)
    for version in (1, 2):
        assert not one.agreed
        one.follow([NOTHING._replace(eval_return=math.nan, eval_version=version), NOTHING], updates=version)
    assert one.status()["reason"] == "patience: 2 evaluations in a row without a finite return"


def test_a_host_that_is_asked_to_end_waits_for_the_others(tmp_path):
    """Its nodes go on until all hosts know; its own end is no failure, that of the others is."""
    first, second = (monitor(tmp_path, index) for index in (0, 1))
    second.stop_program("SIGTERM to the launcher")
    assert beat(second)["stop"] == "" and not second.agreed
    reports = [NOTHING, second.host_report(saving=False)]
    for one in (first, second):
        one.follow(reports, updates=3)
        assert one.agreed
    assert second.status()["reason"] == "SIGTERM to the launcher" and not second.status()["failure"]
    assert first.status()["failure"] == "host 1 was asked to end; a checkpoint is saved"


def test_several_hosts_decide_by_one_row_of_each_host(tmp_path):
    """Reports come back as one row for each device; here each of two hosts has two devices."""
    one = monitor(tmp_path, 1, env_steps=50)
    agreement = SeveralHosts(one)
    assert not agreement.first and not agreement.saves_at_end()
    assert agreement.merge(None, 0) == agreement.merge((), 1) == Decision(save=False, end=False)
    saving, other = encode(NOTHING._replace(env_steps=30, saving=1)), encode(NOTHING._replace(env_steps=15))
    assert agreement.merge(np.stack([saving, saving, other, other]), 2) == Decision(save=True, end=False)
    assert one.totals()["env_steps"] == 30
    more = encode(NOTHING._replace(env_steps=20))
    assert agreement.merge(np.stack([saving, saving, more, more]), 3) == Decision(save=True, end=True)
    assert agreement.saves_at_end()


def test_several_hosts_report_alike_from_each_device(tmp_path):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("batch",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    one = monitor(tmp_path)
    beat(one, env_steps=5.0)
    (row,) = np.asarray(SeveralHosts(one).report(True, sharding))
    assert decode(row).env_steps == 5.0 and decode(row).saving == 1.0
    assert Agreement().report(True, sharding) == ()


def test_a_single_host_saves_whenever_it_is_due():
    agreement = Agreement()
    for due in (True, False):
        agreement.report(due, sharding=None)
        assert agreement.merge((), 1) == Decision(save=due, end=False)
    assert agreement.first and agreement.saves_at_end()


def test_an_update_that_failed_by_a_timeout_of_its_own_raises_that(tmp_path, monkeypatch):
    """It isn't one that takes too long."""
    monkeypatch.setattr(agreement, "FINISH_DEADLINE_S", -1.0)
    failed: futures.Future = futures.Future()
    failed.set_exception(futures.TimeoutError("the disk didn't answer"))
    for one in (Agreement(), SeveralHosts(monitor(tmp_path))):
        with pytest.raises(futures.TimeoutError, match="the disk didn't answer"):
            one.settle(Node("learner"), failed)


def test_a_single_hosts_update_may_not_take_for_ever_and_is_left_where_the_learner_is_to_stop(monkeypatch):
    monkeypatch.setattr(agreement, "FINISH_DEADLINE_S", -1.0)
    node, never = Node("learner"), futures.Future()
    with pytest.raises(TimeoutError, match="learner: an update took over -1 s"):
        Agreement().settle(node, never)
    node.stop()
    assert Agreement().settle(node, never) is None


def test_an_update_waits_for_another_host_as_long_as_its_actors_may_be_away(tmp_path, monkeypatch):
    monkeypatch.setattr(agreement, "UPDATE_S", -1.0)
    monkeypatch.setattr(agreement, "FINISH_DEADLINE_S", -1.0)
    node, update, waits = Node("learner"), futures.Future(), []

    def wait_for(what: str, poll, deadline_s: float):
        waits.append((what, deadline_s))
        update.set_result("reports")
        return poll(0.0)

    monkeypatch.setattr(node, "wait_for", wait_for)
    assert SeveralHosts(monitor(tmp_path)).settle(node, update) == "reports"
    assert waits == [("the other hosts", AWAY_S)]


def test_a_failure_ends_a_hosts_nodes_at_once(tmp_path):
    one = monitor(tmp_path)
    beat(one)
    one.report_end("actor/0", "actor/0 failed while stepping: boom")
    assert beat(one)["stop"] and not one.agreed


@pytest.mark.parametrize(("settings", "message"), [
    ({"number": 0}, "hosts.number is 0; it must be at least 1"),
    ({"coordinator": "a:1", "number": 2, "index": 2}, "hosts.index is 2; it must be at least 0 and below hosts.number"),
    ({"number": 2}, "hosts.coordinator is ''; 2 hosts need it, as HOST:PORT"),
    ({"coordinator": "a:b", "number": 2}, "hosts.coordinator is 'a:b'; 2 hosts need it, as HOST:PORT"),
    ({"coordinator": "1234", "number": 2}, "hosts.coordinator is '1234'; 2 hosts need it, as HOST:PORT"),
    ({"coordinator": ":1234", "number": 2}, "hosts.coordinator is ':1234'; 2 hosts need it, as HOST:PORT"),
    ({"coordinator": "a:0", "number": 2}, "hosts.coordinator is 'a:0'; 2 hosts need it, as HOST:PORT"),
    ({"coordinator": "a:99999", "number": 2}, "hosts.coordinator is 'a:99999'; 2 hosts need it, as HOST:PORT"),
    ({"coordinator": "a:²", "number": 2}, "hosts.coordinator is 'a:²'; 2 hosts need it, as HOST:PORT"),
])  # fmt: skip
def test_hosts_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Hosts(**settings)
