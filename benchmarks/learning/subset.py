"""Measures whether the agents still learn as they did: a few short sweeps, against the intervals in recorded.json.

    ./run python benchmarks/learning/subset.py                   # all, in under ten minutes
    ./run python benchmarks/learning/subset.py impala-catch
    ./run python benchmarks/learning/subset.py --record          # writes what it has measured over what was there

It prints a table, and ends with code 1 if an interquartile mean is below its recorded interval.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import tyro
from rich import console, table

from boonta.programs.experiments import summary
from boonta.programs.experiments.folders import folders_of
from boonta.programs.experiments.groups import Group
from boonta.programs.experiments.results import recorded, results_of
from boonta.programs.experiments.statistics import Estimate

RECORDED = pathlib.Path(__file__).with_name("recorded.json")
LIMIT_S = 900  # Time limit of one sweep.


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      names: the entries of recorded.json; all by default.
      record: whether the intervals are replaced by those measured.
    """

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    record: bool = False


def main(options: Options) -> int:
    """Runs the sweeps, and returns the exit code."""
    entries: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())
    unknown = sorted(set(options.names) - entries.keys())
    if unknown:
        print(f"error: {unknown[0]!r} isn't recorded; there are {', '.join(entries)}", file=sys.stderr)
        return 2
    rows = table.Table("sweep", "interquartile mean", "recorded", "seconds", "")
    fell = []
    for name in options.names or entries:
        entry, began = entries[name], time.monotonic()
        measured = _measure(entry["sweep"])
        if not options.record and measured.value < entry["interval"][0]:
            fell.append(name)
        seconds = f"{time.monotonic() - began:.0f}"
        before = _text(entry["interquartile_mean"], *entry["interval"])
        rows.add_row(name, _text(*map(float, measured)), before, seconds, "below" if name in fell else "")
        if options.record:
            entry["interquartile_mean"] = round(float(measured.value), 3)
            entry["interval"] = [round(float(end), 3) for end in (measured.low, measured.high)]
    console.Console(width=100).print(rows)
    if options.record:
        RECORDED.write_text(json.dumps(entries, indent=2) + "\n")
    return 1 if fell else 0


def _measure(sweep: str) -> Estimate:
    """The interquartile mean of the final evaluations of a sweep's runs.

    Args:
      sweep: the command line of `boonta sweep`, without its folder.
    """
    with tempfile.TemporaryDirectory(prefix="boonta-learning-") as folder:
        command = [sys.executable, "-m", "boonta", "sweep", *_with_folder(shlex.split(sweep), folder)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        if ended.returncode:
            raise RuntimeError(f"{shlex.join(command)} ended with {ended.returncode}: {ended.stdout}{ended.stderr}")
        runs = [
            result
            for run in folders_of([pathlib.Path(folder)])
            for result in results_of(recorded(run), "eval_return", "newest")[0]
        ]
    return summary.final(Group(sweep, tuple(runs)))


def _with_folder(words: Sequence[str], folder: str) -> list[str]:
    """The command line with the sweep's folder, which comes before the flags that all runs are given."""
    rest = words.index("--")
    return [*words[:rest], "--workdir", folder, *words[rest:]]


def _text(mean: float, low: float, high: float) -> str:
    return f"{mean:.4g} [{low:.4g}, {high:.4g}]"


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options)))
