"""Measures Anakin, PureJaxRL and Stoix in turns: medians of env steps per second while learning, and ratios.

    BOONTA_PYTHON=3.13 ./run python benchmarks/peers/fused.py --purejaxrl FOLDER --stoix FOLDER

`purejaxrl.py` and `stoix.sh`, beside this file, describe how to make the folders. All three use the same networks: two
layers of 64 for the policy and two for the value. The peers of a row run directly after each other, because the speed
of a shared machine changes from minute to minute.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import tyro

from boonta.benchmarks import timing

HERE = pathlib.Path(__file__).parent
ROWS = tuple(itertools.product(("catch", "cartpole", "breakout"), (64, 1024)))
LIMIT_S = 3_600.0  # Most time of a measurement, of which Stoix's first one makes an environment.
TAIL = 20  # Lines of a failed command's log that are shown.
ROW = re.compile(r"^\w+\s+[\d,]+(?:\s+1)?\s+([\d,]{4,})", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      purejaxrl, stoix: the peers' folders; a peer without one is left out.
      rounds: number of measurements of each row.
      seconds: time to measure Boonta and PureJaxRL; Stoix has a fixed number of steps.
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
            rates[row].setdefault(who, []).append(_rate(printed(who, command, LIMIT_S + 10 * options.seconds)))
            print(f"{row[0]} {row[1]:,d}: {who} {rates[row][who][-1]:,d}", flush=True)
    print(f"{'':12s} {'num_envs':>8s} {'Boonta':>10s} {'PureJaxRL':>10s} {'Stoix':>10s} {'of the better':>18s}")
    for (env_name, num_envs), of in rates.items():
        median = {who: statistics.median(values) for who, values in of.items()}
        shown = (
            f"{median[who]:10,.0f}" if who in median else f"{'-':>10s}" for who in ("Boonta", "PureJaxRL", "Stoix")
        )
        ratios = timing.ratios(of.pop("Boonta"), *of.values())
        print(f"{env_name:12s} {num_envs:8,d} {' '.join(shown)} {ratios:>18s}")


def printed(who: str, command: Sequence[str], limit_s: float) -> str:
    """What a command prints; its log is on standard error.

    Raises:
      SystemExit: it failed; the message has the end of its log.
    """
    with tempfile.TemporaryFile("w+") as log:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, timeout=limit_s)
        if done.returncode:
            log.seek(0)
            raise SystemExit(f"{who} ended with code {done.returncode}:\n{''.join(log.readlines()[-TAIL:])}")
    return done.stdout


def commands(options: Options, env_name: str, num_envs: int) -> list[tuple[str, list[str]]]:
    """Returns the name and the command of each program to measure."""
    row = ["--envs", env_name, "--num-envs", str(num_envs), "--seconds", str(options.seconds)]
    own = [sys.executable, str(HERE.parent / "anakin.py"), "--width", "64", "--value-torso", "own"]
    found = [("Boonta", own + row)]
    if options.purejaxrl:
        python = str(options.purejaxrl / ".venv" / "bin" / "python")
        found.append(("PureJaxRL", [python, str(HERE / "purejaxrl.py"), str(options.purejaxrl), *row]))
    if options.stoix and env_name != "catch":  # Stoix can't run gymnax's Catch: `select` fails.
        found.append(("Stoix", [str(HERE / "stoix.sh"), str(options.stoix), env_name, str(num_envs)]))
    return found


def _rate(printed: str) -> int:
    """Returns the rate in a row of the form: environment, number of slots, (devices,) rate."""
    match = ROW.search(printed)
    if not match:
        raise ValueError(f"no row of figures in {printed!r}")
    return int(match[1].replace(",", ""))


if __name__ == "__main__":
    main(tyro.cli(Options))
