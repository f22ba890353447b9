"""Traces of updates: which ones they have, that they are written, and that a run survives where they can't be."""

from __future__ import annotations

import contextlib
import threading
import time

import jax
import jax.numpy as jnp
import pytest

from boonta.nodes.base import Node
from boonta.nodes.learning import profiling
from boonta.nodes.learning.profiling import Profile, Tracer
from boonta.nodes.watch.stopwatch import Stopwatch
from boonta.tests.helpers import traces


@pytest.fixture(autouse=True)
def as_long_as_it_takes(monkeypatch):
    """On a busy machine a few updates may take long. No test leaves a trace to the next."""
    monkeypatch.setattr(profiling, "MOST_S", 600.0)
    stop = jax.profiler.stop_trace
    yield
    with contextlib.suppress(RuntimeError):
        stop()


class Updating:
    """A node that makes updates, and its trace.

    Attributes:
      settled: whether the device was waited for before the trace was written.
    """

    def __init__(self, folder, updates: int = 3, at_once: int = 1, made: int = 0):
        self.node, self.made, self._at_once, self.settled = Node("learner"), made, at_once, False
        self._tracer = Tracer(self.node, Profile(updates, str(folder)), self._settle)
        self._update, self._state = jax.jit(lambda x: jnp.tanh(x @ x)), jnp.ones((8, 8))

    def _settle(self) -> None:
        self._state.block_until_ready()
        self.settled = True

    def dispatch(self, number: int) -> None:
        for _ in range(number):
            with self._tracer.dispatch(self.made):
                self._state = self._update(self._state)
            self.made += self._at_once


def test_a_trace_has_as_many_updates_as_asked_for_after_the_first_ten(tmp_path):
    learner = Updating(tmp_path)
    learner.dispatch(10)
    assert not list(tmp_path.iterdir())
    learner.dispatch(30)
    assert learner.settled
    learner.node.close()
    assert traces.updates(tmp_path) == [10, 11, 12]
    assert not learner.node.warnings


def test_what_was_made_before_this_life_does_not_count(tmp_path):
    learner = Updating(tmp_path, made=500)
    learner.dispatch(14)
    assert traces.updates(tmp_path) == [510, 511, 512]


def test_a_dispatch_of_many_updates_is_traced_as_a_whole(tmp_path):
    learner = Updating(tmp_path, updates=5, at_once=4)
    learner.dispatch(6)
    assert traces.updates(tmp_path) == [12, 16]


def test_the_trace_has_the_devices_work_and_the_activities_of_all_threads(tmp_path):
    learner, actor = Updating(tmp_path), Node("actor/0")

    def act() -> None:
        with actor.stopwatch("acting"):
            pass

    learner.dispatch(11)
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
    learner.dispatch(3)
    act()  # The trace is written by now.
    found = [event for event in traces.events(tmp_path) if event["name"] == "actor/0: acting"]
    mine = next(event for event in traces.events(tmp_path) if event["name"] == "update")
    assert len(found) == 1 and found[0]["tid"] != mine["tid"]
    assert any("tanh" in event["name"] or "dot" in event["name"] for event in traces.events(tmp_path))


def test_a_trace_is_written_though_the_run_ends_before_all_of_its_updates_are_made(tmp_path):
    learner = Updating(tmp_path)
    learner.dispatch(12)
    learner.node.close()
    assert traces.updates(tmp_path) == [10, 11]
    assert Stopwatch.mark is None and not learner.node.warnings


def test_a_trace_that_gets_long_ends_early_and_says_so(tmp_path, monkeypatch):
    """Also where no other update comes, since the learner waits for data."""
    monkeypatch.setattr(profiling, "MOST_S", 0.0)
    learner = Updating(tmp_path, updates=100)
    learner.dispatch(11)
    end = time.monotonic() + 60.0
    while not learner.node.warnings and time.monotonic() < end:
        time.sleep(0.01)
    learner.node.close()  # It waits until the trace is written.
    assert learner.node.warnings == ["the trace ends after 0 s, with about 1 of 100 updates"]
    (written,) = tmp_path.rglob("*.xplane.pb")  # Whether an update came before the end depends on the scheduler.
    assert written.stat().st_size > 0 and Stopwatch.mark is None


def test_a_run_that_ends_within_its_first_updates_says_that_it_has_no_trace(tmp_path):
    learner = Updating(tmp_path)
    learner.dispatch(10)
    learner.node.close()
    assert not list(tmp_path.iterdir())
    assert learner.node.warnings == ["there is no trace, since this life made no update after its first 10"]


def test_a_folder_that_can_not_be_made_is_a_warning(tmp_path):
    (tmp_path / "profile").write_text("a file")
    learner = Updating(tmp_path / "profile" / "learner")
    learner.dispatch(20)
    learner.node.close()
    (warning,) = learner.node.warnings
    assert warning.startswith(f"there is no trace in {tmp_path}/profile/learner: ") and "Not a directory" in warning
    assert Stopwatch.mark is None


def test_a_trace_that_can_not_be_written_is_a_warning(tmp_path):
    folder = tmp_path / "profile"
    learner = Updating(folder)
    learner.dispatch(12)
    folder.rmdir()
    folder.write_text("a file")
    learner.dispatch(10)
    learner.node.close()
    (warning,) = learner.node.warnings
    assert warning.startswith(f"there is no trace in {folder}: ")
    folder.unlink()  # So that JAX 0.6, which keeps the trace, can write it for the next test.
    assert Stopwatch.mark is None


def test_nothing_is_traced_unless_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(jax, "profiler", None)
    node = Node("learner")
    tracer = Tracer(node, None, lambda: None)
    for made in range(30):
        with tracer.dispatch(made):
            pass
    node.close()
    assert not node.warnings and Stopwatch.mark is None
