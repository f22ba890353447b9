"""Measures how long a learner needs from the start of its process to its first update, at first and when it is resumed.

    ./run python benchmarks/start.py
    ./run python benchmarks/start.py --program muzero.py --env gymnasium/CartPole-v1 --turns 3

Each turn runs the program in a new folder, with a compile cache that is empty, and then once more from that folder. The
phases are those of `start_s/<phase>` in `nodes/METRICS.md`: imports, connecting, and what the
learner's thread does.
"""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile

import tyro

from boonta.benchmarks.timing import NO_EVALUATION, figures, medians, run_program

LIVES = ("at first", "resumed")
START = "start_s"


@dataclasses.dataclass(frozen=True)
class Options:
    """What is measured.

    Attributes:
      program: the program's file.
      env: the environment.
      launch: the way to run it.
      turns: turns of a first start and a resumed one, of which the medians are printed.
      seconds: seconds of each run; the first update must fit in.
    """

    program: str = "muzero.py"
    env: str = "gymnasium/CartPole-v1"
    launch: str = "local_mp"
    turns: int = 3
    seconds: float = 60.0


def starts(options: Options) -> list[dict[str, float]]:
    """The phases of both starts of one turn, in seconds."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for life in range(len(LIVES)):
            flags = [options.env, NO_EVALUATION, "--launch", options.launch]
            run_program(options.program, flags, folder, (life + 1) * options.seconds)  # A run is as old as its lives.
            row = figures(pathlib.Path(folder))[-1]
            if START not in row:
                raise SystemExit(f"no update came within {options.seconds:.0f} s: give it more --seconds")
            found.append({name: value for name, value in row.items() if name.partition("/")[0] == START})
    return found


def main(options: Options) -> None:
    """Prints the table."""
    turns = [starts(options) for _ in range(options.turns)]
    print(f"{options.program} {options.env} --launch {options.launch}: seconds, medians of {options.turns} turns")
    for life, of_turns in zip(LIVES, zip(*turns)):
        whole = [each[START] for each in of_turns]
        row = medians(of_turns)
        phases = sorted(((value, name.partition("/")[2]) for name, value in row.items() if name != START), reverse=True)
        parts = ", ".join(f"{name.replace('_', ' ')} {value:.1f}" for value, name in phases)
        print(f"{life:9s} {row[START]:6.1f} ({min(whole):.1f}-{max(whole):.1f})  {parts}")


if __name__ == "__main__":
    main(tyro.cli(Options))
