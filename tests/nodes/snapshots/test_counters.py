"""Counters count each life of a node once, whoever restarts: learner, actors, the monitor itself, or all of them."""

from __future__ import annotations

import itertools
import json
import random
import threading

import pytest

from boonta.nodes.monitor import Monitor
from boonta.nodes.snapshots import counters, files
from boonta.nodes.watch.stopping import StopRule
from boonta.tests.helpers.damage import DAMAGES
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.heartbeats import report

pytestmark = pytest.mark.once

FILE = "counters.json"
NUMBERS = itertools.count(1)  # Of reports, by any node.


@pytest.fixture
def start(tmp_path):
    """Makes a monitor in the test's folder, which takes reports before it writes any metrics."""
    return lambda: Monitor("monitor", str(tmp_path), StopRule())


def beat(monitor: Monitor, name: str, life: str = "first", known: bool = False, **counts: float) -> dict:
    """A heartbeat of a life of a node, which a monitor has answered before if it is known."""
    told = {**report(name, counts=counts), "life": life, "acknowledged": int(known), "number": next(NUMBERS)}
    return monitor.beat(told)


def of(monitor: Monitor, *names: str) -> tuple[float, ...]:
    totals = monitor.totals()
    return tuple(totals.get(name, 0.0) for name in names or ("env_steps", "updates"))


CHECKPOINT = {"env_steps": 800.0, "updates": 40.0, "eval_episodes": 4.0, "seconds": 3600.0}


@pytest.mark.parametrize("reported", [{"updates": 50.0}, {}], ids=["reported", "died before it reported"])
def test_a_learner_that_restarts_alone_takes_back_updates_and_nothing_else(start, reported):
    monitor = start()
    beat(monitor, "actor/0", env_steps=1_000.0)
    beat(monitor, "evaluator", eval_episodes=6.0)
    beat(monitor, "learner")
    beat(monitor, "learner", **reported)
    beat(monitor, "learner", "second")
    monitor.resume("learner", CHECKPOINT)
    assert of(monitor, "env_steps", "updates", "eval_episodes") == (1_000.0, 40.0, 6.0)
    assert monitor.totals()["seconds"] < 3_600.0
    beat(monitor, "actor/0", env_steps=1_100.0)
    beat(monitor, "learner", "second", updates=5.0)
    assert of(monitor) == (1_100.0, 45.0)


def test_it_may_restart_again_and_go_back_further(start):
    monitor = start()
    beat(monitor, "learner")
    monitor.resume("learner", CHECKPOINT)
    beat(monitor, "actor/0", env_steps=10.0)
    beat(monitor, "learner", updates=7.0)
    assert of(monitor) == (810.0, 47.0)
    for life, counts in (("second", {**CHECKPOINT, "updates": 45.0}), ("third", {"env_steps": 700.0, "updates": 30.0})):
        beat(monitor, "learner", life)
        monitor.resume("learner", counts)
        assert of(monitor) == (810.0, counts["updates"])
    beat(monitor, "learner", "third", updates=1.0)
    assert of(monitor) == (810.0, 31.0) and monitor.totals()["seconds"] >= 3_600.0


def test_what_one_node_counts_alone_goes_back_with_it(start):
    monitor = start()
    beat(monitor, "anakin", env_steps=500.0, updates=50.0, eval_episodes=8.0)
    beat(monitor, "anakin", "second")
    monitor.resume("anakin", {"env_steps": 400.0, "updates": 40.0, "eval_episodes": 4.0})
    assert of(monitor, "env_steps", "updates", "eval_episodes") == (400.0, 40.0, 4.0)


def test_a_late_heartbeat_of_a_life_that_is_over_counts_nothing(start):
    monitor = start()
    for life, steps in (("first", 10.0), ("second", 3.0), ("first", 11.0), ("second", 4.0)):
        beat(monitor, "actor/0", life, env_steps=steps)
    assert of(monitor, "env_steps") == (14.0,)


def test_of_many_lives_their_number_is_kept_and_the_newest(start):
    monitor, number = start(), 10 * counters.REMEMBERED
    for life in range(number):
        beat(monitor, "actor/0", f"life {life}", env_steps=1.0)
    content = monitor._ledger.content(heard=True)
    assert content["over"] == [("actor/0", f"life {life}") for life in range(number - 1)][-counters.REMEMBERED :]
    monitor._save_counters()
    again = start()
    for life in (number - 1, number - 2, number - 1 - counters.REMEMBERED):
        reply = beat(again, "actor/0", f"life {life}", known=True, env_steps=1.0)
        assert reply["past_lives"] == number - 1 and not reply["failure"]
    assert of(again, "env_steps") == (float(number),)


def test_no_heartbeat_waits_while_counters_are_written(start, monkeypatch, tmp_path):
    monitor, sealed = start(), files.sealed
    beat(monitor, "actor/0", env_steps=1.0)

    def slow(content: dict) -> bytes:
        beating = threading.Thread(target=beat, args=(monitor, "actor/0"), kwargs={"env_steps": 5.0}, daemon=True)
        beating.start()
        beating.join(DEADLINE_S)
        assert not beating.is_alive()
        return sealed(content)

    monkeypatch.setattr(files, "sealed", slow)
    monitor._save_counters()
    assert of(monitor, "env_steps") == (5.0,)
    assert counters.load(tmp_path).totals()["env_steps"] == 1.0  # The content was taken before.


def test_a_monitor_that_comes_back_goes_on(start):
    first = start()
    beat(first, "learner")
    first.resume("learner", CHECKPOINT)
    beat(first, "actor/0", env_steps=100.0)
    beat(first, "actor/0", "second", env_steps=5.0)
    first._save_counters()
    again = start()
    beat(again, "actor/1", "new", env_steps=1.0)
    assert not beat(again, "actor/0", "second", known=True, env_steps=8.0)["failure"]
    beat(again, "learner", known=True, updates=2.0)
    assert of(again) == (909.0, 42.0) and again.totals()["seconds"] >= 3_600.0


def test_the_start_of_a_monitors_process_counts_once_each_time(start):
    first = start()
    first.launched_at -= 1_000.0
    first.start()
    beat(first, "learner")
    first._save_counters()
    again = start()
    again.launched_at -= 500.0
    again.start()
    beat(again, "learner", known=True)
    again._save_counters()
    third = start()
    beat(third, "learner", known=True)
    assert 1_500.0 <= third.totals()["seconds"] < 2_000.0


def test_each_monitor_of_a_folder_has_a_number_of_its_own(start):
    """So that no two lives of a node have the same pair of numbers, whatever was started again."""
    assert [beat(start(), "actor/0", life)["past_starts"] for life in ("first", "second")] == [0, 1]
    back = start()  # The second one's nodes live on.
    replies = [beat(back, "actor/0", "second", known=True), beat(back, "actor/1", "new")]
    assert [reply["past_starts"] for reply in replies] == [2, 2] and not replies[0]["failure"]
    assert start()._ledger.counters.starts == 3


def test_a_node_that_was_answered_is_known_to_the_next_monitor_at_once(start):
    beat(start(), "actor/0")
    assert not beat(start(), "actor/0", known=True)["failure"]


@pytest.mark.parametrize("learner_first", [True, False])
def test_monitor_and_learner_come_back_in_any_order(start, learner_first):
    first = start()
    beat(first, "actor/0", env_steps=1_000.0)
    beat(first, "learner", updates=50.0)
    first._save_counters()
    again = start()
    if not learner_first:
        beat(again, "actor/0", known=True, env_steps=1_010.0)
    beat(again, "learner", "second")
    again.resume("learner", CHECKPOINT)
    beat(again, "learner", "second", updates=3.0)
    beat(again, "actor/0", known=True, env_steps=1_020.0)
    assert of(again) == (1_020.0, 43.0)


def test_a_program_that_is_started_again_counts_from_its_checkpoint_alone(start):
    first = start()
    beat(first, "actor/0", env_steps=1_000.0)
    beat(first, "learner", updates=50.0)
    first._save_counters()
    again = start()
    beat(again, "actor/0", "new", env_steps=10.0)
    beat(again, "learner", "new")
    assert of(again) == (10.0, 0.0)
    again.resume("learner", CHECKPOINT)
    assert of(again) == (810.0, 40.0) and again.totals()["seconds"] >= 3_600.0


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_with_damaged_counters_it_ends_the_program(start, tmp_path, damage):
    beat(start(), "actor/0", env_steps=1.0)
    damage(tmp_path / FILE)
    assert "came back without its counters: actor/0" in beat(start(), "actor/0", known=True)["failure"]


@pytest.mark.parametrize("content", [[], {}, {"sha256": 1}, {"lives": {"a": 1}}, {"lives": [], "sha256": None}, 1, "["])
def test_a_strange_file_is_no_counters(start, tmp_path, content):
    (tmp_path / FILE).write_text(json.dumps(content))
    assert not beat(start(), "actor/0", env_steps=1.0)["failure"]


@pytest.mark.parametrize("value", ["10", None, True, float("nan"), float("inf"), 10**400, [1.0]])
def test_a_counter_that_is_no_number_is_refused_even_with_the_right_digest(tmp_path, value):
    content = {"lives": {}, "over": [], "past": {}, "base": {"env_steps": 1.0}, "seconds": 1.0}
    content |= {"admitted": {}, "lives_over": {}}
    (tmp_path / FILE).write_bytes(files.sealed(content))
    assert counters.load(tmp_path).totals()["env_steps"] == 1.0
    for changed in (
        {"base": {"env_steps": value}},
        {"seconds": value},
        {"lives": {"actor/0": ["first", {"a": value}]}},
    ):
        (tmp_path / FILE).write_bytes(files.sealed({**content, **changed}))
        assert counters.load(tmp_path) is None


def test_counters_that_can_not_be_saved_are_reported_and_the_run_goes_on(start, tmp_path):
    monitor = start()
    (tmp_path / f"{FILE}.new").mkdir()
    beat(monitor, "actor/0", env_steps=1.0)
    assert "the counters can't be saved" in monitor.status()["warnings"][0]
    (tmp_path / f"{FILE}.new").rmdir()
    monitor._save_counters()
    assert (tmp_path / FILE).exists() and not monitor.status()["failure"]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_restarts_every_step_counts_once_and_updates_are_the_learners(start, seed):
    """Random steps, saves and restarts, against a model that knows what was done."""
    rng = random.Random(seed)
    monitor = start()
    lives = {f"actor/{i}": [f"a{i}", 0.0, False] for i in range(3)} | {"learner": ["l", 0.0, False]}
    done, updates, saved = 0.0, 0.0, {}

    def tell(name: str) -> None:
        life, count, known = lives[name]
        counter = "updates" if name == "learner" else "env_steps"
        assert not beat(monitor, name, life, known, **({counter: count} if count else {}))["failure"]
        lives[name][2] = True

    tell("learner")
    monitor.resume("learner", {})
    for step in range(300):
        name = rng.choice(sorted(lives))
        event = rng.choice(["work", "work", "work", "restart", "save", "monitor"])
        if event == "work":
            lives[name][1] += 1.0
            done, updates = (done, updates + 1.0) if name == "learner" else (done + 1.0, updates)
            tell(name)
        elif event == "restart":
            lives[name] = [f"{name} {step}", 0.0, False]
            tell(name)
            if name == "learner":
                monitor.resume(name, saved)
                updates = saved.get("updates", 0.0)
        elif event == "save":
            saved = {**monitor.totals(), "updates": updates}
        else:
            monitor._save_counters()
            monitor = start()
            for known in sorted(each for each in lives if lives[each][2]):
                tell(known)
        assert of(monitor) == (done, updates), (step, event, name)


def test_the_sums_that_are_kept_are_those_of_all_nodes_and_lives():
    draw, kept = random.Random(0), counters.Counters()
    for turn in range(200):
        name, life = f"actor/{draw.randrange(3)}", str(draw.randrange(3))
        counted = ("env_steps", "episodes")[: draw.randrange(3)]
        kept.record(name, life, {counter: float(draw.randrange(100)) for counter in counted})
        if turn % 50 == 49:
            kept.resume(name, {"env_steps": 7.0, "seconds": 3.0})
        totals = kept.totals()
        del totals["seconds"]
        assert totals == kept._add_up()
