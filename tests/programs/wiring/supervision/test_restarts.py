"""The policy of restarts, with times that are given."""

from __future__ import annotations

import math
import signal

import pytest

from boonta.nodes.snapshots.files import FULL
from boonta.programs.wiring.supervision.restarts import Death, History, Restarts, decide, how_ended

POLICY = Restarts(number=3, window_s=100.0, backoff_s=1.0)
KILLED, BROKEN = "was killed by SIGKILL while acting", "failed while stepping environments: ValueError: step {}"


def raised(at: float, number: int = 0, worked: bool = True) -> Death:
    return Death(at, BROKEN.format(number), raised=True, worked=worked)


def test_each_death_within_the_window_doubles_the_back_off():
    deaths = [Death(float(at), KILLED) for at in range(3)]
    assert [decide("actor/0", POLICY, deaths[: i + 1]).delay_s for i in range(3)] == [1.0, 2.0, 4.0]


def test_one_death_too_many_ends_the_program_with_all_causes():
    deaths = [Death(0.0, KILLED), Death(1.0, "exited with code 3 while acting"), Death(2.0, KILLED), raised(3.0)]
    assert decide("actor/0", POLICY, deaths).failure == (
        f"actor/0 {BROKEN.format(0)}; it has been started again 3 times within 100 s. Before that it {KILLED} "
        "(2 times); it exited with code 3 while acting"
    )


def test_deaths_before_the_window_are_forgotten():
    deaths = [Death(at, KILLED) for at in (0.0, 1.0, 2.0, 101.5)]
    decision = decide("actor/0", POLICY, deaths)
    assert decision.failure == "" and decision.delay_s == 2.0


def test_the_same_exception_three_times_in_a_row_ends_the_program_whatever_its_numbers():
    deaths = [raised(float(at), number=at) for at in range(3)]
    assert decide("learner", POLICY, deaths[:2]).failure == ""
    failure = decide("learner", POLICY, deaths).failure
    assert failure.startswith(f"learner {BROKEN.format(2)}; it has done so 3 times in a row")
    assert BROKEN.format(0) in failure and BROKEN.format(1) in failure


@pytest.mark.parametrize("between", [Death(1.5, KILLED), Death(1.5, "failed while acting: OSError", raised=True)])
def test_what_happens_in_between_starts_the_row_again(between):
    assert decide("learner", POLICY, [raised(0.0), raised(1.0), between, raised(2.0)][-3:]).failure == ""


def test_the_same_signal_is_no_exception():
    assert decide("learner", POLICY, [Death(float(at), KILLED) for at in range(3)]).failure == ""


def test_an_exception_before_any_work_ends_the_program_at_once():
    assert decide("actor/0", POLICY, [raised(0.0, worked=False)]).failure == f"actor/0 {BROKEN.format(0)}"
    assert decide("actor/0", POLICY, [Death(0.0, "was killed by SIGKILL while starting", worked=False)]).failure == ""


def test_a_full_disk_ends_the_program_at_once():
    cause = f"failed: monitor failed while closing: OSError: metrics.jsonl can't be written: {FULL}, 0.0 MB are free"
    assert decide("impala", POLICY, [Death(0.0, cause, raised=True)]).failure == f"impala {cause}"


def test_signals_without_a_name_have_their_number():
    assert how_ended(-signal.SIGKILL) == "was killed by SIGKILL"
    assert how_ended(-(signal.SIGRTMIN + 1)) == f"was killed by signal {signal.SIGRTMIN + 1}"


def test_without_restarts_the_first_death_is_the_failure():
    assert decide("actor/0", Restarts(number=0), [Death(0.0, KILLED)]).failure == f"actor/0 {KILLED}"


def test_a_history_knows_when_the_next_life_starts():
    history = History("actor/0", POLICY, now=10.0)
    assert (history.began, history.due) == (10.0, None)
    history.die(20.0, KILLED)
    assert history.due == 21.0
    history.begin(21.5)
    assert (history.began, history.due) == (21.5, None)
    history.worked = True
    history.die(30.0, KILLED)
    assert history.due == 32.0 and [death.worked for death in history.deaths] == [False, True]


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("number", -1, "at least 0"),
        ("window_s", 0.0, "above 0"),
        ("window_s", math.nan, "above 0"),
        ("backoff_s", -1.0, "0"),
        ("backoff_s", math.nan, "0"),
        ("limit_s", math.nan, "above 0"),
    ],
)
def test_policies_that_cannot_work_are_refused(field, value, allowed):
    with pytest.raises(ValueError, match=f"restarts.{field} is {value}; it must be .*{allowed}"):
        Restarts(**{field: value})
