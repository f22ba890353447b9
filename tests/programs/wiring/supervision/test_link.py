"""What a supervisor knows of a program from its monitor, which may be away."""

from __future__ import annotations

from boonta.programs.wiring.supervision.grace import LONGEST_LOOK_S
from boonta.programs.wiring.supervision.link import MonitorLink
from boonta.tests.helpers.workers import Monitor, Worker


class Away:
    """A monitor that doesn't answer."""

    def __getattr__(self, name: str):
        raise ConnectionError("nobody there")


def linked(monitor, *workers: Worker) -> MonitorLink:
    return MonitorLink([Worker("monitor", polls=10**9), *workers], monitor)


def test_the_monitor_is_told_once_in_each_of_its_lives_whom_to_expect():
    monitor = Monitor(learner="updating")
    link = linked(monitor, Worker("learner"))
    assert link.refresh() and monitor.expected == ["learner"] and link.met_at is not None
    monitor.expected = []
    assert link.refresh() and monitor.expected == []
    link.begin()
    assert link.refresh() and monitor.expected == ["learner"]


def test_what_a_former_life_reported_says_nothing_of_the_present_one():
    learner = Worker("learner")
    link = linked(Monitor(learner="updating"), learner)
    link.refresh()
    assert (link.doing(learner), link.has_worked()) == ("updating", True)
    learner.start_again()
    assert link.doing(learner) == "starting"


def test_a_monitor_that_is_away_leaves_its_last_status():
    learner = Worker("learner", polls=10**9)
    link = linked(Monitor(saving=["learner", "evaluator"], learner="saving a checkpoint"), learner)
    link.refresh()
    assert link.saving() == ["learner"]  # No other lives.
    link._monitor = Away()
    assert not link.refresh() and link.no_answer == "ConnectionError('nobody there')"
    assert link.doing(learner) == "saving a checkpoint" and link.saving() == []
    assert not link.end("SIGTERM to the launcher")
    link.report_end("learner", "was killed by SIGKILL")


def test_time_in_which_the_launcher_itself_was_stopped_is_no_silence():
    link = linked(Away())
    link._called_at -= 1_000.0
    link.refresh()
    assert link.silent_s == link.passed_s == LONGEST_LOOK_S
