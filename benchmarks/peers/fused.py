"""Anakin, PureJaxRL and Stoix in turns: medians of env steps a second while learning, and the ratio to the better peer.

    BOONTA_PYTHON=3.13 ./run python benchmarks/peers/fused.py --purejaxrl FOLDER --stoix FOLDER

`purejaxrl.py` and `stoix.sh`, beside this file, say how the folders are made. Boonta's net has as many weights as the
peers' two.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import statistics
import subprocess
import sys

import tyro

HERE = pathlib.Path(__file__).parent
WIDTHS = {"cartpole": 91, "breakout": 115}
ROW = re.compile(r"^(\w+)\s+([\d,]+)(?:\s+1)?\s+([\d,]{4,})", re.MULTILINE)  # world, environments, (devices,) rate


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
    rounds: int = 3
    seconds: float = 4.0


def main(options: Options) -> None:
    """Runs the rounds and prints the table."""
    rates: dict[tuple[str, int], dict[str, list[int]]] = {}
    for _ in range(options.rounds):
        for who, command in commands(options):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
            for world, num_envs, rate in ROW.findall(done.stdout):
                rates.setdefault((world, _number(num_envs)), {}).setdefault(who, []).append(_number(rate))
    print(f"{'':12s} {'num_envs':>8s} {'Boonta':>10s} {'PureJaxRL':>10s} {'Stoix':>10s} {'of the better':>14s}")
    for (world, num_envs), own in rates.items():
        median = {who: statistics.median(values) for who, values in own.items()}
        best = max((rate for who, rate in median.items() if who != "Boonta"), default=float("nan"))
        told = (f"{median[who]:10,.0f}" if who in median else f"{'-':>10s}" for who in ("Boonta", "PureJaxRL", "Stoix"))
        print(f"{world:12s} {num_envs:8,d} {' '.join(told)} {median['Boonta'] / best:14.2f}")


def commands(options: Options) -> list[tuple[str, list[str]]]:
    """Who is measured by which command."""
    seconds = ["--seconds", str(options.seconds)]
    found = [
        ("Boonta", [sys.executable, str(HERE.parent / "anakin.py"), "--worlds", world, "--width", str(width), *seconds])
        for world, width in WIDTHS.items()
    ]
    if options.purejaxrl:
        python = str(options.purejaxrl / ".venv" / "bin" / "python")
        found.append(("PureJaxRL", [python, str(HERE / "purejaxrl.py"), str(options.purejaxrl), *seconds]))
    if options.stoix:
        found.append(("Stoix", [str(HERE / "stoix.sh"), str(options.stoix)]))
    return found


def _number(text: str) -> int:
    return int(text.replace(",", ""))


if __name__ == "__main__":
    main(tyro.cli(Options))
