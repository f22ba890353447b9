"""Anakin, PureJaxRL and Stoix in turns: medians of env steps a second while learning, and the ratio to the better peer.

    BOONTA_PYTHON=3.13 ./run python benchmarks/peers/fused.py --purejaxrl FOLDER --stoix FOLDER

`purejaxrl.py` and `stoix.sh`, beside this file, say how the folders are made. All have the same nets: two layers of 64
for the policy and two for the values. A row's peers follow each other at once, for the speed of a shared machine
changes by the minute.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import re
import statistics
import subprocess
import sys

import tyro

HERE = pathlib.Path(__file__).parent
ROWS = tuple(itertools.product(("catch", "cartpole", "breakout"), (64, 1024)))
ROW = re.compile(r"^\w+\s+[\d,]+(?:\s+1)?\s+([\d,]{4,})", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Options:
    """What to compare.

    Attributes:
      purejaxrl, stoix: folders; a peer without one is left out.
      rounds: each measures everybody once.
      seconds: of each of Boonta's and PureJaxRL's figures.
    """

    purejaxrl: pathlib.Path | None = None
    stoix: pathlib.Path | None = None
    rounds: int = 5
    seconds: float = 4.0


def main(options: Options) -> None:
    """Runs the rounds and prints the table."""
    rates: dict[tuple[str, int], dict[str, list[int]]] = {row: {} for row in ROWS}
    for _, row in itertools.product(range(options.rounds), ROWS):
        for who, command in commands(options, *row):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
            rates[row].setdefault(who, []).append(_rate(done.stdout))
            print(f"{row[0]} {row[1]:,d}: {who} {rates[row][who][-1]:,d}", flush=True)
    print(f"{'':12s} {'num_envs':>8s} {'Boonta':>10s} {'PureJaxRL':>10s} {'Stoix':>10s} {'of the better':>14s}")
    for (world, num_envs), own in rates.items():
        median = {who: statistics.median(values) for who, values in own.items()}
        best = max((rate for who, rate in median.items() if who != "Boonta"), default=float("nan"))
        told = (f"{median[who]:10,.0f}" if who in median else f"{'-':>10s}" for who in ("Boonta", "PureJaxRL", "Stoix"))
        print(f"{world:12s} {num_envs:8,d} {' '.join(told)} {median['Boonta'] / best:14.2f}")


def commands(options: Options, world: str, num_envs: int) -> list[tuple[str, list[str]]]:
    """Who is measured by which command."""
    row = ["--worlds", world, "--num-envs", str(num_envs), "--seconds", str(options.seconds)]
    own = [sys.executable, str(HERE.parent / "anakin.py"), "--width", "64", "--value-torso", "own"]
    found = [("Boonta", own + row)]
    if options.purejaxrl:
        python = str(options.purejaxrl / ".venv" / "bin" / "python")
        found.append(("PureJaxRL", [python, str(HERE / "purejaxrl.py"), str(options.purejaxrl), *row]))
    if options.stoix and world != "catch":  # gymnax's Catch does not run in it: its select of shapes [10] and []
        found.append(("Stoix", [str(HERE / "stoix.sh"), str(options.stoix), world, str(num_envs)]))
    return found


def _rate(printed: str) -> int:
    """Of the one row: world, environments, (devices,) rate."""
    match = ROW.search(printed)
    if not match:
        raise ValueError(f"no row of figures in {printed!r}")
    return int(match[1].replace(",", ""))


if __name__ == "__main__":
    main(tyro.cli(Options))
