"""Compares local with central inference: IMPALA on Atari as whole programs with many actor processes.

    ./run python benchmarks/inference.py

Central inference removes the agent, JAX and TensorFlow from the actors and makes larger batches, but each step of a
group of environments waits for an answer from another process.

On Pong, an actor with central inference takes 89 MB: the interpreter with numpy and Launchpad, and the Arcade Learning
Environment. An actor with local inference also loads JAX (128 MB), the agent's libraries, and the programs that XLA
compiles (31 MB); with central inference only the inference node loads these.

Rates depend on the number of cores left for the learner, so compare only rates of the same run.
"""

from __future__ import annotations

import dataclasses

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
    """

    game: str = "Pong"
    actors: int = 8
    num_envs: int = 4
    seconds: float = 60.0


def main(options: Options) -> None:
    """Measures both, one after the other, and prints them side by side."""
    flags = [f"atari/{options.game}", f"--actors={options.actors}", f"--num-envs={options.num_envs}"]
    rows = {way: figures(timing.whole(program, flags, options.seconds)) for way, program in PROGRAMS.items()}
    print(f"{'':40s} {'local':>9s} {'central':>9s} {'ratio':>7s}")
    for name in sorted(set(rows["local"]) | set(rows["central"]), key=list(rows["central"]).index):
        local, central = (rows[way].get(name) for way in PROGRAMS)
        ratio = f"{central / local:7.2f}" if local and central else ""
        print(f"{name:40s} {_cell(local)} {_cell(central)} {ratio}")


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


def _cell(value: float | None) -> str:
    return f"{'':9s}" if value is None else f"{value:9,.1f}"


if __name__ == "__main__":
    main(tyro.cli(Options))
