"""Compares our agents with Acme's own on the same task and machine: returns, and agent steps a second, in one run.

    ./run python benchmarks/acme.py --agents sac --seconds 60 --turns 3

Ours are run as `--launch` says, each way by itself, with the preset of the environment and the flags in `TASKS`. Acme's
are what its builders make, in one process that acts and learns in turn (`benchmarks/peers/acme_agents.py`); its other
layout wants sonnet. Both have the same networks, and make as many updates of as many samples for each env step, so
that a ratio of steps a second is one of what is learned, too. All are measured in each turn. A rate is the median of a
program's rows after its first minute, which compiles and fills tables; the table shows medians over turns.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from typing import Literal

import tyro

from boonta.benchmarks import timing

THEIRS = "../benchmarks/peers/acme_agents.py"
ACMES = "Acme's"
# By agent its environment, and the flags with which our preset has Acme's network and its kind of replay.
TASKS: dict[str, tuple[str, ...]] = {
    "impala": ("catch", "--config.torso.widths=64", "--config.lstm-size=64"),
    "dqn": ("catch", "--config.replay.sampler=proportional"),
    "r2d2": ("catch", "--config.head-width=0"),
    "sac": ("gymnasium/Pendulum-v1",),
}
KEYS = ("env_steps_per_s", "return", "updates_per_s")


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      agents: which ones.
      launch: the ways to run ours.
      seconds: time that each program is measured for, after its first minute.
      turns: how often each is measured.
    """

    agents: tuple[str, ...] = tuple(TASKS)
    launch: tuple[Literal["local_mp", "local_mt", "serial", "sebulba"], ...] = ("local_mp", "sebulba")
    seconds: float = 60.0
    turns: int = 1


def compare(
    options: Options,
    measure: Callable[[str, Sequence[str]], dict[str, float]],
    show: Callable[[str], None] = print,
) -> None:
    """Measures each agent on its task, and shows a line for each way to run it.

    Args:
      options: which agents, how, and how often.
      measure: `(program, flags) -> row of metrics`.
      show: takes a line.

    Raises:
      SystemExit: an agent has an unknown name.
    """
    if unknown := [agent for agent in options.agents if agent not in TASKS]:
        raise SystemExit(f"--agents {unknown[0]} is unknown; allowed: {', '.join(TASKS)}")
    show(f"medians of {options.turns} turns; in parentheses the least and the greatest ratio of a turn")
    show(f"{'agent':8s} {'':10s} {'steps/s':>9s} {'ratio':>20s} {'return':>9s} {'updates/s':>9s}")
    for agent in options.agents:
        env, *flags = TASKS[agent]
        flags = [env, *flags, timing.NO_EVALUATION]
        commands = {ACMES: (THEIRS, [env, "--agent", agent])}
        commands |= {launch: (f"{agent}.py", [*flags, "--launch", launch]) for launch in options.launch}
        turns = [{name: measure(*command) for name, command in commands.items()} for _ in range(options.turns)]
        for name in commands:
            show(f"{agent:8s} {name:10s} {_line(turns, name)}")


def _line(turns: Sequence[dict[str, dict[str, float]]], name: str) -> str:
    """A program's figures, of all turns, beside Acme's."""
    rows = [turn[name] for turn in turns]
    middle = {key: statistics.median(row.get(key, float("nan")) for row in rows) for key in KEYS}
    ratios = timing.ratios(*([row["env_steps_per_s"] for row in of] for of in (rows, [turn[ACMES] for turn in turns])))
    return f"{middle['env_steps_per_s']:9,.0f} {ratios:>20s} {middle['return']:9.2f} {middle['updates_per_s']:9.1f}"


def main(options: Options) -> None:
    """Measures and prints."""
    compare(options, lambda program, flags: timing.whole(program, flags, options.seconds))


if __name__ == "__main__":
    main(tyro.cli(Options))
