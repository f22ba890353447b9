"""The limits of activities."""

from __future__ import annotations

import re
import time

import pytest

from boonta.nodes.base import Node
from boonta.nodes.rpc.errors import Failed
from boonta.nodes.watch import pulse


def test_the_activity_that_a_thread_does_not_get_beyond_is_named():
    node = Node("actor/0")
    with node.stopwatch("stepping"), node.stopwatch("acting"):
        assert re.fullmatch(r"has been acting for \d+ s, its limit is 0 s", pulse.stuck(node.stopwatch, limit_s=0.0))
        assert pulse.stuck(node.stopwatch, limit_s=100.0) == ""


def test_the_first_time_of_an_activity_may_take_longer_since_it_may_compile(monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    node = Node("actor/0")
    for expected in ("", "has been acting for 150 s, its limit is 100 s"):
        with node.stopwatch("acting"):
            now += 150.0
            assert pulse.stuck(node.stopwatch, limit_s=100.0) == expected


def test_closing_has_a_limit_but_no_longer_one_for_its_first_time_and_what_it_saves_has_none(monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    node = Node("actor/0")
    with node.stopwatch("closing"):
        with node.stopwatch("saving all"):
            now += 1_000.0
            assert pulse.stuck(node.stopwatch, limit_s=100.0) == ""
        now += 150.0
        assert pulse.stuck(node.stopwatch, limit_s=100.0) == "has been closing for 150 s, its limit is 100 s"


@pytest.mark.parametrize("activity", ["waiting for params", "compiling", "saving a checkpoint", "resting", "starting"])
def test_some_activities_may_take_any_time(activity):
    node = Node("actor/0")
    with node.stopwatch(activity):
        assert pulse.stuck(node.stopwatch, limit_s=0.0) == ""


def test_who_does_one_thing_after_another_is_not_stuck_in_what_contains_them(monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    node = Node("evaluator")
    with node.stopwatch("stepping"):
        for _ in range(10):
            with node.stopwatch("acting"):
                now += 100.0
        now += 5.0
        assert node.stopwatch.longest() == ("stepping", 5.0)
        assert pulse.stuck(node.stopwatch, limit_s=200.0) == ""


def test_a_monitor_that_only_raises_ends_a_node_by_its_own_error(monkeypatch):
    monkeypatch.setattr(pulse, "MONITOR_DEADLINE_S", 0.0)

    class Broken:
        def beat(self, report: dict) -> dict:
            raise Failed("beat", "KeyError", "'a bug'")

    node = Node("actor/0", Broken())
    monkeypatch.setattr(node, "step", lambda: node.sleep(0.1))
    with pytest.raises(TimeoutError, match="^actor/0: the monitor's own error: beat: KeyError: 'a bug'$"):
        node.run()
