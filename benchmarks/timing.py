"""Times functions, parts in processes of their own, and whole programs, for the benchmarks."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

from boonta.nodes import metrics
from boonta.nodes.watch.ending import end_now
from boonta.programs.wiring.interpreters.local import ON_CPU

ROOT = pathlib.Path(__file__).resolve().parents[1]
# A run evaluates at most a tenth of its time, but the first minutes have more of it, and the limit has none.
NO_EVALUATION = "--evaluation.every-s=3600"


def per_second(work: Callable[[], float], seconds: float) -> float:
    """Measures `work`, which returns the env steps of one call, in env steps per second; warms up first."""
    for _ in range(3):
        work()
    done, start = 0.0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        done += work()
    return done / elapsed


def on_all_cores(make_work: Callable[[int], Callable[[], float]], seconds: float) -> float:
    """Runs `per_second` in one thread per core; returns the sum."""
    works = [make_work(i) for i in range(os.cpu_count() or 1)]
    with futures.ThreadPoolExecutor(len(works)) as threads:
        return sum(threads.map(lambda work: per_second(work, seconds), works))


def in_process(file: str, options: Any, part: str) -> float:
    """Measures a part in a fresh process, with the environment variables that its group has in a program.

    Args:
      file: the benchmark, which calls `answer` if its flag `--part` is given.
      options: the benchmark's options, a dataclass whose fields are its flags.
      part: the value of the flag `--part`.
    """
    group = ON_CPU if part in ("env", "act") else {"JAX_PLATFORMS": "cpu"}
    fields = dataclasses.asdict(options) | {"part": part}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in fields.items()]
    command = [sys.executable, file, *flags]
    done = subprocess.run(command, env={**os.environ, **group}, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def answer(rate: float) -> None:
    """Prints the rate and ends the process at once, because Reverb's threads abort a normal exit."""
    print(json.dumps(rate), flush=True)
    end_now(0)


def whole(program: str, flags: Sequence[str], seconds: float) -> dict[str, float]:
    """Runs a program from the command line for a minute and `seconds`; returns medians of its rows after the minute.

    Args:
      program: the program's file.
      flags: the program's arguments; if it takes an environment, the name comes first.
      seconds: time to measure.
    """
    return medians(rows(program, flags, seconds))


def medians(steady: Sequence[dict[str, float]]) -> dict[str, float]:
    """The median of each metric over the rows that have it."""
    names = {name for row in steady for name in row}
    return {name: statistics.median(row[name] for row in steady if name in row) for name in names}


@contextlib.contextmanager
def gpu_busy() -> Iterator[list[float]]:
    """Samples how busy the GPUs are: a list of means over them, which is filled at the end of the block.

    Each is the share of the time in which a GPU computes anything at all, as NVIDIA's driver measures it; the rest it
    idles. The list stays empty without a GPU.
    """
    found: list[float] = []
    if shutil.which("nvidia-smi") is None:
        yield found
        return
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--loop-ms=200"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sampling:
        try:
            yield found
        finally:
            sampling.terminate()
            printed, _ = sampling.communicate()
            found += [float(line) / 100 for line in printed.splitlines() if line.strip().isdigit()]


def share(values: Sequence[float]) -> str:
    """The mean of some shares in percent; a dash if there are none."""
    return f"{statistics.mean(values):.0%}" if values else "-"


def spread(values: Sequence[float], form: str) -> str:
    """The median of some values, the least and the greatest, each in this format, such as "2.0 (1.0-4.0)"."""
    median, least, greatest = (format(value, form) for value in (statistics.median(values), min(values), max(values)))
    return f"{median} ({least}-{greatest})"


def figures(folder: pathlib.Path) -> list[dict[str, float]]:
    """The rows of a run, the oldest first, without what wasn't finite."""
    return [{name: value for name, value in row.items() if value is not None} for row in metrics.read(folder)]


def rows(program: str, flags: Sequence[str], seconds: float) -> list[dict[str, float]]:
    """The rows themselves of which `whole` returns the medians, the oldest first."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "programs" / program), *flags, "--workdir", folder]
        subprocess.run([*command, f"--stop.seconds={60 + seconds}"], check=True, stdout=sys.stderr)
        found = figures(pathlib.Path(folder))
    steady = [row for row in found[:-1] if row.get("updates_per_s", 0) > 0][2:]
    if not steady:
        raise SystemExit(f"{program} had hardly begun to learn in {60 + seconds:.0f} s: measure with more --seconds")
    return steady


PROCESSES = "whole, as processes, through Reverb"
LIMIT = "limit of the parts: 1/(1/env + 1/act + 1/learn)"
REVERB_LIMIT = "limit with Reverb, whose time adds to theirs"


def print_table(turns: Sequence[dict[str, float]], wholes: Mapping[str, str]) -> None:
    """Prints medians over turns with their spread, and the shares of their limits that the wholes reach.

    Args:
      turns: rates of each turn by label, with limits among them. A whole is compared with the limit of its own turn,
        since a machine grows slower and faster.
      wholes: the label of its limit by the label of a whole: `REVERB_LIMIT` for those that go through Reverb.
    """
    print(f"medians of {len(turns)} turns, from the least to the greatest")
    print(f"{'':50s} {'steps/s':>9s} {'':>17s} {'us/step':>9s} {'of limit':>9s}")
    for label in turns[0]:
        rates = [turn[label] for turn in turns]
        rate, extremes = statistics.median(rates), f"({min(rates):,.0f}-{max(rates):,.0f})"
        share = ""
        if label in wholes:
            shares = [turn[label] / turn[wholes[label]] for turn in turns]
            share = f"{statistics.median(shares):9.0%} ({min(shares):.0%}-{max(shares):.0%})"
        print(f"{label:50s} {rate:9,.0f} {extremes:>17s} {1e6 / rate:9,.0f} {share}")


def print_profile(row: dict[str, float]) -> None:
    """Prints the division of a thread's time in a whole program, and the memory of all nodes."""
    print("\nwhere a thread's time goes, as processes through Reverb:")
    for name, value in sorted(row.items(), key=lambda item: -item[1]):
        if name.startswith("share/") and value >= 0.01 and "resting" not in name:
            print(f"  {name.removeprefix('share/').replace('_', ' '):45s} {value:5.0%}")
    print(f"  resident memory of all nodes: {sum(v for k, v in row.items() if k.startswith('rss_mb/')) / 1000:.2f} GB")
