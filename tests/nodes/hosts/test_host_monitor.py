"""What hosts tell each other with an update, and what all of them conclude from it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.hosts.host_monitor import HostMonitor, Said
from boonta.nodes.monitor import StopRule

NOTHING = Said(0, 0, 0, 0, 0, math.nan, 0, 0)


def monitor(tmp_path, index: int = 0, **rule) -> HostMonitor:
    return HostMonitor("monitor", str(tmp_path), StopRule(**rule), Hosts("here:1", 2, index))


def told(*rows: Said) -> np.ndarray:
    return np.array(rows, np.float64).view(np.int32)


def beat(monitor: HostMonitor, **counts: float) -> dict:
    report = {"name": "actor/0", "counts": counts, "samples": {}, "metrics": {}, "seconds": {}, "life": "1"}
    return monitor.beat(
        {
            **report,
            "serves": False,
            "heard": False,
            "build": "",
            "warning": "",
            "activity": "",
            "activity_s": 0.0,
            "rss_mb": 1,
            "process": "host/1",
        }
    )


def test_what_is_told_survives_as_integers(tmp_path):
    one = monitor(tmp_path)
    beat(one, env_steps=2.0**53 - 1, frames=12.0)
    said = Said(*one.tell(saving=True).view(np.float64))
    assert (said.env_steps, said.frames, said.ending, said.saving) == (2.0**53 - 1, 12.0, 0.0, 1.0)
    assert math.isnan(said.eval_return)


def test_counters_are_those_of_all_hosts(tmp_path):
    one = monitor(tmp_path)
    beat(one, env_steps=10.0)
    one.conclude(told(NOTHING._replace(env_steps=10), NOTHING._replace(env_steps=32)), updates=1)
    assert one.totals()["env_steps"] == 42.0
    assert Said(*one.tell(saving=False).view(np.float64)).env_steps == 10.0  # its own


def test_a_rule_that_hosts_fulfil_together_ends_all_of_them(tmp_path):
    rows = told(NOTHING._replace(env_steps=60), NOTHING._replace(env_steps=40))
    for index in (0, 1):
        one = monitor(tmp_path, index, env_steps=100)
        one.conclude(rows, updates=7)
        assert one.agreed and "env_steps reached 100" in one.status()["reason"] and not one.status()["failure"]
    by_updates = monitor(tmp_path, 0, updates=7)
    by_updates.conclude(rows, updates=6)
    assert not by_updates.agreed
    by_updates.conclude(rows, updates=7)
    assert by_updates.agreed


def test_only_the_first_hosts_evaluation_and_wish_to_save_count(tmp_path):
    one = monitor(tmp_path, 1, eval_return=0.5)
    assert not one.conclude(told(NOTHING, NOTHING._replace(eval_return=1.0, saving=1)), updates=1) and not one.agreed
    assert one.conclude(told(NOTHING._replace(eval_return=1.0, saving=1), NOTHING), updates=2) and one.agreed


def test_a_host_that_is_told_to_end_waits_for_the_others(tmp_path):
    """Its nodes go on until all have heard; its own end is no failure, that of the others is."""
    first, second = (monitor(tmp_path, index) for index in (0, 1))
    second.stop_program("SIGTERM to the launcher")
    assert beat(second)["stop"] == "" and not second.agreed
    rows = told(NOTHING, Said(*second.tell(saving=False).view(np.float64)))
    for one in (first, second):
        one.conclude(rows, updates=3)
        assert one.agreed
    assert second.status()["reason"] == "SIGTERM to the launcher" and not second.status()["failure"]
    assert first.status()["failure"] == "host 1 was told to end; a checkpoint is saved"


def test_a_failure_ends_a_hosts_nodes_at_once(tmp_path):
    one = monitor(tmp_path)
    beat(one)
    one.goodbye("actor/0", "actor/0 failed while stepping: boom")
    assert beat(one)["stop"] and not one.agreed


@pytest.mark.parametrize(("settings", "said"), [
    ({"number": 0}, "hosts.number is 0; it must be at least 1"),
    ({"coordinator": "a:1", "number": 2, "index": 2}, "hosts.index is 2; it must be at least 0 and below hosts.number"),
    ({"number": 2}, "hosts.coordinator is ''; 2 hosts need it, as HOST:PORT"),
    ({"coordinator": "a:b", "number": 2}, "hosts.coordinator is 'a:b'; 2 hosts need it, as HOST:PORT"),
])  # fmt: skip
def test_hosts_that_cannot_be_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        Hosts(**settings)


def test_what_hosts_divide_must_divide():
    assert Hosts("a:1", 3, 1).share("batch_size", 12) == 4
    with pytest.raises(ValueError, match="batch_size is 8; it must divide over 3 hosts"):
        Hosts("a:1", 3, 1).share("batch_size", 8)
