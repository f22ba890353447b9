"""The phases of a process's start are told apart, and add up to its age."""

from __future__ import annotations

import time

import pytest

from boonta.nodes.watch import stopwatch


@pytest.fixture
def before_nodes(monkeypatch) -> stopwatch.Stopwatch:
    """What this process did before its nodes; other tests of this process have left something in the real one."""
    monkeypatch.setattr(stopwatch, "before_nodes", stopwatch.Stopwatch())
    return stopwatch.before_nodes


def test_the_phases_of_a_start_add_up_to_it(monkeypatch, before_nodes):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    node = stopwatch.Stopwatch()
    with node("restoring the checkpoint"):
        now += 0.1
    with node("publishing"):
        pass
    found = stopwatch.start_seconds(node)
    assert set(found) == {"start_s", "start_s/connecting", "start_s/importing", "start_s/restoring_the_checkpoint"}
    assert found["start_s/restoring_the_checkpoint"] == 0.1
    assert sum(found.values()) == pytest.approx(2 * found["start_s"])


def test_all_that_connects_is_one_phase_and_no_importing(monkeypatch, before_nodes):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(stopwatch, "process_age", lambda: 10.0)
    node = stopwatch.Stopwatch()
    with before_nodes(stopwatch.CONNECTING):
        now += 4.0
    with node("starting"):
        now += 1.0
        with node("connecting to the other learners"):
            now += 2.0
    phases = {"start_s/connecting": 6.0, "start_s/starting": 1.0, "start_s/importing": 3.0}
    assert stopwatch.start_seconds(node) == {"start_s": 10.0, **phases}
