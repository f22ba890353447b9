"""Measures how long it takes until a node that is killed or stopped is named, and until it works again.

    ./run python benchmarks/restarts.py

Two programs on Catch have all kinds of nodes between them. One node after the other is killed (SIGKILL), then stopped
(SIGSTOP), as the default policy of restarts allows. A node works again when its new process has begun its work, the
counters of env steps and updates have grown twice since, and so has, once, what the node itself counts. Heartbeats come
every second, so all figures are up to two seconds too large. If any other node dies meanwhile, the script ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import tyro

from boonta.benchmarks import timing
from boonta.nodes.rpc.client import Client
from boonta.nodes.rpc.wire import UNIX
from boonta.tests.helpers.chaos import DEATH
from boonta.tests.helpers.running import COUNTERS, POLL_S, Running

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
OWN = {"evaluator": "eval_episodes", "reanalyzer": "reanalyzed_steps", "inference": "inferences"}  # Counters, by role.
ANSWER_S = 2.0  # The monitor's time for an answer.
REST_S = 2.0  # From one node's return to the next one's end.
DEADLINE_S = 180.0


class Plan(NamedTuple):
    """What happens to a program.

    Attributes:
      flags: its arguments.
      victims: the nodes that are struck.
    """

    flags: Sequence[str]
    victims: Sequence[str]


OFTEN = ("catch", "--evaluation.every-s", "1", "--save-every-s", "10")
PROGRAMS = {
    "programs/reanalyze.py": Plan(
        OFTEN, ("monitor", "variables", "replay", "learner", "actor/0", "reanalyzer/0", "evaluator")
    ),
    "programs/central_inference.py": Plan((*OFTEN, "--actors", "2"), ("inference",)),
}


class Times(NamedTuple):
    """Seconds since a node was struck.

    Attributes:
      named_s: until the program has said so.
      works_s: until the node works again.
    """

    named_s: float
    works_s: float


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      turns: how often each node is struck in each way; each turn starts the programs anew.
      ways: "kill", "stop" or both.
    """

    turns: int = 3
    ways: tuple[Literal["kill", "stop"], ...] = ("kill", "stop")


def main(options: Options, programs: Mapping[str, Plan] = PROGRAMS) -> None:
    """Measures all turns, and prints medians with the least and the greatest."""
    found: dict[tuple[str, str], list[Times]] = {}
    for _ in range(options.turns):
        for file, plan in programs.items():
            for struck, times in turn(file, plan, options.ways).items():
                found.setdefault(struck, []).append(times)
    print(f"\nmedians of {options.turns} turns, from the least to the greatest, in seconds")
    print(f"{'node':16s} {'':6s} {'until it is named':>24s} {'until it works again':>24s}")
    for (victim, way), several in found.items():
        figures = [timing.spread(values, ".1f") for values in zip(*several)]
        print(f"{victim:16s} {way:6s}" + "".join(f" {figure:>24s}" for figure in figures))


def turn(file: str, plan: Plan, ways: Sequence[str]) -> dict[tuple[str, str], Times]:
    """Runs a program once, and strikes its nodes, one after the other."""
    found = {}
    with tempfile.TemporaryDirectory() as folder, Running(pathlib.Path(folder), file, *plan.flags) as run:
        wanted = {OWN[role] for role in map(_role, plan.victims) if role in OWN} | set(COUNTERS)
        run.wait_until(lambda: all(_totals(_status(run)).get(name, 0.0) for name in wanted), "all nodes work")
        for way in ways:
            for victim in plan.victims:
                found[victim, way] = times = strike(run, victim, SIGNALS[way])
                print(f"{victim:16s} {way:6s} named after {times.named_s:5.1f} s, works after {times.works_s:5.1f} s")
                time.sleep(REST_S)
        run.end()
    return found


def strike(run: Running, victim: str, number: int) -> Times:
    """Sends a node a signal, and waits until it works again."""
    before, deaths = run.pids, DEATH.findall(run.printed)
    began, named_s = time.monotonic(), 0.0
    seen: list[dict[str, float]] = []  # The counters since the node has begun its work.
    os.kill(before[victim], number)
    while not _works(seen, OWN.get(_role(victim))):
        elapsed = time.monotonic() - began
        news = [name for name, _ in DEATH.findall(run.printed)[len(deaths) :]]
        named_s = named_s or (elapsed if victim in news else 0.0)
        if elapsed > DEADLINE_S or run.process.poll() is not None or set(news) - {victim}:
            raise SystemExit(f"{victim} was struck, and {elapsed:.0f} s later does not work alone: {run.printed}")
        status = _status(run) if run.pids[victim] != before[victim] else {}
        if status and _has_begun(status, victim, run.pids[victim]):
            seen.append(_totals(status))
        time.sleep(POLL_S)
    return Times(named_s, time.monotonic() - began)


def _role(name: str) -> str:
    return name.partition("/")[0]


def _status(run: Running) -> dict[str, Any]:
    """What the monitor answers; empty if it doesn't."""
    with contextlib.suppress(Exception):  # It is starting, hung or dead.
        (address,) = run.workdir.glob("tmp/*/monitor")
        return Client(f"{UNIX}{address}", ANSWER_S).status()
    return {}


def _totals(status: Mapping[str, Any]) -> dict[str, float]:
    return dict(status.get("totals", {}))


def _has_begun(status: Mapping[str, Any], victim: str, pid: int) -> bool:
    """Whether a node's newest process has begun its work; a monitor that answers has."""
    node = status["nodes"].get(victim)
    return victim == "monitor" or (node is not None and node["started"] and node["process"].endswith(f"/{pid}"))


def _works(seen: Sequence[Mapping[str, float]], own: str | None) -> bool:
    """Whether the program's counters have grown twice, and the node's own once."""

    def growths(name: str) -> int:
        return sum(old.get(name, 0.0) < new.get(name, 0.0) for old, new in zip(seen, seen[1:]))

    return all(growths(name) > 1 for name in COUNTERS) and (own is None or growths(own) > 0)


if __name__ == "__main__":
    main(tyro.cli(Options))
