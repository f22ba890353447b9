"""Workers that can't go on without each other: whose death was the cause of the others'."""

from __future__ import annotations

from typing import NamedTuple

from boonta.nodes.hosts.agreement import LOST
from boonta.programs.wiring.supervision import together


class Worker(NamedTuple):
    name: str
    together: str = ""
    how: str = ""

    def death(self) -> str:
        return self.how


ACTOR = Worker("actor/0", how="was killed by SIGABRT")
LEARNERS = [Worker(f"learner/{i}", "learner") for i in range(3)]


def reported(failures: dict[str, str], ages: dict[str, float]):
    return lambda worker: {"failure": failures.get(worker.name, ""), "report_age_s": ages.get(worker.name, 0.0)}


def test_only_those_of_a_group_have_mates():
    workers = [ACTOR, *LEARNERS]
    assert together.mates(ACTOR, workers) == [] and together.mates(LEARNERS[1], workers) == LEARNERS


def test_victims_by_their_own_report_or_by_jax_are_looked_at_last():
    first, second, third = LEARNERS
    aborted = second._replace(how="was killed by SIGABRT")
    lost = reported({"learner/0": f"learner/0 failed while updating: ConnectionError: {LOST}, of learner/2"}, {})
    names = [each.name for each in together.victims_last([first, ACTOR, aborted, third], lost)]
    assert names == ["actor/0", "learner/2", "learner/0", "learner/1"]


def test_mates_that_were_silent_when_jax_ended_one_are_named():
    first, *_ = workers = [ACTOR, *LEARNERS][1:]
    silence = reported({}, {"learner/0": 20.0, "learner/1": 11.4, "learner/2": 1.0, "actor/0": 30.0})
    assert together.silent(first, [ACTOR, *workers], silence) == "; learner/1 has sent no heartbeat for 11 s"
    assert together.silent(ACTOR, [ACTOR, *workers], silence) == ""
    starting = lambda worker: {"failure": ""}  # noqa: E731  # It hasn't reported.
    assert together.silent(first, workers, starting) == ""
