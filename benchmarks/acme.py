"""Compares our agents with Acme's own on the same task and machine: returns, and agent steps a second, in one run.

    ./run python benchmarks/acme.py --agents impala --seconds 120

Ours are processes, as `programs/*.py` starts them, with the preset of the environment. Acme's are what its builders
make, in one process that acts and learns in turn (`benchmarks/peers/acme_agents.py`); its other layout wants sonnet. An
agent that Boonta has no program for is measured alone. The figures are medians of a program's rows after its first
minute, which compiles and fills tables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import tyro

from boonta.benchmarks import timing
from boonta.nodes.watch.ending import end_now

THEIRS = "../benchmarks/peers/acme_agents.py"
ACMES = "Acme's"
TASKS = {"impala": "catch", "dqn": "catch", "r2d2": "catch", "sac": "gymnasium/Pendulum-v1"}


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      agents: which ones.
      seconds: time that each program is measured for, after its first minute.
    """

    agents: tuple[str, ...] = tuple(TASKS)
    seconds: float = 120.0


def compare(
    agents: Sequence[str],
    measure: Callable[[str, Sequence[str]], dict[str, float]],
    show: Callable[[str], None] = print,
) -> None:
    """Measures each agent on its task, and shows a line for each.

    Args:
      agents: names in `TASKS`.
      measure: `(program, flags) -> row of metrics`.
      show: takes a line.

    Raises:
      SystemExit: an agent has an unknown name.
    """
    if unknown := [agent for agent in agents if agent not in TASKS]:
        raise SystemExit(f"--agents {unknown[0]} is unknown; allowed: {', '.join(TASKS)}")
    show(f"{'agent':8s} {'task':22s} {'':7s} {'steps/s':>9s} {'return':>9s} {'env steps':>11s} {'updates/s':>9s}")
    for agent in agents:
        task = TASKS[agent]
        programs = {"ours": (f"{agent}.py", [task]), ACMES: (THEIRS, [task, "--agent", agent])}
        rates = {}
        for who, (program, flags) in programs.items():
            if not (timing.ROOT / "programs" / program).exists():
                show(f"{agent:8s} {task:22s} {who:7s} there is no programs/{program}")
                continue
            row = measure(program, flags)
            rates[who] = row["env_steps_per_s"]
            show(
                f"{agent:8s} {task:22s} {who:7s} {rates[who]:9,.0f} {row.get('return', float('nan')):9.2f} "
                f"{row['env_steps']:11,.0f} {row['updates_per_s']:9.1f}"
            )
        if len(rates) == 2:
            show(f"{agent:8s} {'':22s} {'ratio':7s} {rates['ours'] / rates[ACMES]:9.2f}")


def main(options: Options) -> None:
    """Measures and prints."""
    compare(options.agents, lambda program, flags: timing.whole(program, flags, options.seconds))


if __name__ == "__main__":
    main(tyro.cli(Options))
    end_now(0)
