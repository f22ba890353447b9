"""Workers that can't go on without each other, as several learners can't: which one's death was the cause."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from boonta.nodes.hosts.agreement import LOST
from boonta.programs.wiring.supervision.workers import Worker

SILENT_S = 5.0  # Time without a heartbeat, of which there is one a second, after which a worker may be the cause.
Reported = Callable[[Worker], Mapping[str, Any]]  # The monitor's status of a worker's present life.


def mates(worker: Worker, workers: Sequence[Worker]) -> list[Worker]:
    """Those that can't go on without a worker, itself among them; none where it is alone."""
    return [each for each in workers if worker.together and each.together == worker.together]


def victims_last(workers: Sequence[Worker], reported: Reported) -> list[Worker]:
    """The workers, last those that have ended since another one did: by their own report, or JAX has ended them."""

    def is_victim(worker: Worker) -> bool:
        return LOST in reported(worker)["failure"] or (bool(worker.together) and "SIGABRT" in worker.death())

    return sorted(workers, key=is_victim)


def silent(worker: Worker, workers: Sequence[Worker], reported: Reported) -> str:
    """The mates of one that has died which have sent no heartbeat for a while, as a clause; empty if there are none."""
    ages = {each.name: reported(each).get("report_age_s", 0.0) for each in mates(worker, workers) if each is not worker}
    return "".join(f"; {name} has sent no heartbeat for {age:.0f} s" for name, age in ages.items() if age > SILENT_S)
