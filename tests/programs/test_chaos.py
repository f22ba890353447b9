"""Kills, stops and stalls of all kinds of nodes, in any order: programs go on, learn, and leave nothing behind."""

from __future__ import annotations

import time

import pytest

from boonta.tests.helpers.chaos import ALLOWED, Chaos, Event, schedule
from boonta.tests.helpers.running import COUNTERS, Running
from boonta.tests.helpers.runs import saved

pytestmark = pytest.mark.cluster
INFERENCE = "tests/helpers/inference_program.py"
BAR = 0.9  # Mean return of an evaluation on Catch; 1 is the best.
EVENTS, DURATION_S = 50, 600.0
TIMES = 3.0  # The time to the bar may be so many times the one of a run that nothing disturbs.
SAVE = ("--save-every-s", "5")
PROGRAMS = {
    "impala": ["--evaluation.every-s", "2"],
    "reanalyze": ["--evaluation.every-s", "2"],
    "central_inference": ["--actors", "2", "--num-envs", "16", "--evaluation.every-s", "2"],
}


def best(run: Running) -> float:
    return max((row.get("eval_return") or -1.0 for row in run.rows), default=-1.0)


def require_sound_counters(run: Running) -> None:
    """Env steps never go back; updates do with the learner's death, which comes back from its checkpoint."""
    rows = run.rows
    assert all(old["env_steps"] <= new["env_steps"] for old, new in zip(rows, rows[1:]))
    assert all(row[name] >= 0 for row in rows for name in COUNTERS)


def test_schedules_are_repeatable_and_strike_all():
    nodes = ["monitor", "learner", "actor/0"]
    events = schedule(7, nodes, 9)
    assert events == schedule(7, nodes, 9) != schedule(8, nodes, 9)
    assert {event.victim for event in events[:3]} == set(nodes)
    assert sorted(event.kind for event in events) == ["kill"] * 3 + ["stall"] * 3 + ["stop"] * 3


def test_a_program_survives_an_event_at_each_kind_of_node(tmp_path):
    """The bars of agents that learn in a minute are those of the next test."""
    with Running(tmp_path, INFERENCE, *ALLOWED, *SAVE) as run:
        run.wait_until_it_works()
        chaos = Chaos(run)
        events = [*schedule(32, list(run.pids), 5, ["kill", "stall"]), Event("stop", "learner")]
        assert {event.victim.partition("/")[0] for event in events} == {name.partition("/")[0] for name in run.pids}
        for event in events:
            chaos.strike_and_wait(event)
            chaos.require_no_growth(run.pids)
        began = run.rows[0]["updates"]
        run.end()
    require_sound_counters(run)
    assert saved(run.workdir) == run.rows[-1]["updates"] > began


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_reach_their_bars_among_fifty_events(tmp_path, program):
    file, flags = f"programs/{program}.py", ["catch", *PROGRAMS[program]]
    calm_s = _seconds_to_bar(tmp_path, file, flags)
    with Running(tmp_path, file, *flags, *ALLOWED, *SAVE) as run:
        began = time.monotonic()
        run.wait_until(lambda: bool(run.pids), "the nodes are launched")
        chaos, reached_s = Chaos(run), 0.0
        for i, event in enumerate(schedule(0, list(run.pids), EVENTS)):
            due = began + (i + 1) * DURATION_S / EVENTS
            while time.monotonic() < due:
                if not reached_s and best(run) >= BAR:
                    reached_s = time.monotonic() - began
                time.sleep(0.5)
            assert run.process.poll() is None, run.printed
            chaos.strike(event)
            chaos.require_no_growth()
        run.wait_until_it_works()
        run.wait_until(lambda: best(run) >= BAR, "it learns")
        printed = run.end()
        print(f"{program}: bar reached after {calm_s:.0f} s undisturbed, {reached_s:.0f} s among events")
    chaos.require_no_others_died()
    require_sound_counters(run)
    assert 0.0 < reached_s <= TIMES * calm_s, printed


def _seconds_to_bar(tmp_path, file: str, flags: list[str]) -> float:
    calm = tmp_path / "calm"
    calm.mkdir()
    began = time.monotonic()
    with Running(calm, file, *flags, "--stop.eval-return", str(BAR)) as run:
        run.finish(0, 1_200)
    return time.monotonic() - began
