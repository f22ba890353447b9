"""Compares local with central inference: IMPALA on Atari as whole programs with many actor processes.

    ./run python benchmarks/inference.py

Central inference removes the agent and JAX from the actors and makes larger batches, but each step of a group of
environments waits for an answer from another process.

Rates depend on the number of cores left for the learner, so compare only rates of the same run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tyro

from boonta.benchmarks import timing

PROGRAMS = {"local": "impala.py", "central": "central_inference.py"}


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      game: the Atari game.
      actors: number of actor processes.
      num_envs: environment slots per actor, in two groups.
      seconds: time to measure each program, after a minute for its start.
      turns: how often both are measured, one after the other.
    """

    game: str = "Pong"
    actors: int = 8
    num_envs: int = 4
    seconds: float = 60.0
    turns: int = 3


def main(options: Options) -> None:
    """Measures both in turns, and prints medians with their spread side by side, and the ratios of single turns."""
    flags = [f"atari/{options.game}", f"--actors={options.actors}", f"--num-envs={options.num_envs}"]
    turns = [
        {way: figures(timing.whole(program, flags, options.seconds)) for way, program in PROGRAMS.items()}
        for _ in range(options.turns)
    ]
    print(f"medians of {options.turns} turns, from the least to the greatest")
    print(f"{'':32s} {'local':>26s} {'central':>26s} {'ratio':>18s}")
    for name in dict.fromkeys(name for way in reversed(PROGRAMS) for name in turns[0][way]):
        cells = [_cell([turn[way][name] for turn in turns if name in turn[way]], ",.1f") for way in PROGRAMS]
        pairs = [(turn["local"].get(name), turn["central"].get(name)) for turn in turns]
        both = list(zip(*(pair for pair in pairs if all(pair))))
        ratio = timing.ratios(both[1], both[0]) if both else ""
        print(f"{name:32s} {cells[0]:>26s} {cells[1]:>26s} {ratio:>18s}")


def figures(row: dict[str, float]) -> dict[str, float]:
    """Extracts the compared figures from a row of metrics: rates, policy lag, resident memory."""
    memory = {name.removeprefix("rss_mb/"): value for name, value in row.items() if name.startswith("rss_mb/")}
    actors = [value for name, value in memory.items() if name.startswith("actor/")]
    return {
        "env steps/s": row["env_steps_per_s"],
        "updates/s": row["updates_per_s"],
        "lag, in updates": row["policy_lag"],
        "memory of all nodes, MB": sum(memory.values()),
        "memory of an actor, MB": sum(actors) / len(actors),
        **{f"memory of {name}, MB": value for name, value in memory.items() if not name.startswith("actor/")},
    }


def _cell(values: Sequence[float], form: str) -> str:
    """The median with its spread; empty for no values."""
    return timing.spread(values, form) if values else ""


if __name__ == "__main__":
    main(tyro.cli(Options))
