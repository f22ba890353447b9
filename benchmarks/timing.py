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

import psutil

from boonta.nodes import metrics
from boonta.nodes.watch.ending import end_now
from boonta.programs.wiring.machine import cores

ROOT = pathlib.Path(__file__).resolve().parents[1]
# A run evaluates at most a tenth of its time, but the first minutes have more of it, and the limit has none.
NO_EVALUATION = "--evaluation.every-s=3600"
WARM_UP = 3  # Calls before a measurement.
FIRST_S = 60.0  # Time at a program's start that isn't measured: it compiles, and fills its tables.
END_S = 600.0  # Most time that a program takes beyond the one after which it stops: to start, to save and to end.
PART_S = 1_200.0  # Most time that a part takes beyond what it measures: to import, to compile and to fill a table.
ACTING, LEARNING = ("env", "act"), ("learn", "reverb", "pipe")  # Parts of a program that runs on the CPU.


def per_second(work: Callable[[], float], seconds: float) -> float:
    """Measures `work`, which returns the env steps of one call, in env steps per second; warms up first."""
    for _ in range(WARM_UP):
        work()
    done, start = 0.0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        done += work()
    return done / elapsed


def per_cpu_second(work: Callable[[], float], seconds: float, processes: Sequence[psutil.Process]) -> float:
    """As `per_second`, but in env steps for each second of processor time that all of these processes take."""
    for _ in range(WARM_UP):
        work()
    done, start, before = 0.0, time.perf_counter(), cpu_s(*processes)
    while time.perf_counter() - start < seconds or cpu_s(*processes) == before:  # This clock ticks every 10 ms.
        done += work()
    return done / (cpu_s(*processes) - before)


def cpu_s(*processes: psutil.Process) -> float:
    """The time that processors have spent on these processes, in seconds."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def median_s(work: Callable[[], Any], number: int) -> float:
    """The median time of `number` calls, in seconds, after some to warm up."""
    for _ in range(number // 10 + WARM_UP):
        work()
    seconds = []
    for _ in range(number):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def on_all_cores(make_work: Callable[[int], Callable[[], float]], seconds: float) -> float:
    """Runs `per_second` in one thread per core; returns the sum."""
    works = [make_work(i) for i in range(cores.usable())]
    with futures.ThreadPoolExecutor(len(works)) as threads:
        return sum(threads.map(lambda work: per_second(work, seconds), works))


def in_process(file: str, options: Any, part: str) -> float:
    """Measures a part in a fresh process; a part of a program has the environment variables of its group.

    Args:
      file: the benchmark, which calls `answer` if its flag `--part` is given.
      options: the benchmark's options, a dataclass whose fields are its flags, `seconds` among them.
      part: the value of the flag `--part`.
    """
    from boonta.programs.wiring.interpreters.local import ON_CPU  # Not above: it loads JAX, which servers do without.

    fields = dataclasses.asdict(options) | {"part": part}
    group = ON_CPU if part in ACTING else {"JAX_PLATFORMS": "cpu"} if part in LEARNING else {}
    done = subprocess.run(
        [sys.executable, file, *as_flags(fields)],
        env={**os.environ, **group},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=PART_S + 10 * options.seconds,
    )
    return float(done.stdout.splitlines()[-1])


def as_flags(values: Mapping[str, Any]) -> list[str]:
    """The words of a command line that give options their values; those of a tuple stand apart."""
    words = []
    for name, value in values.items():
        flag = f"--{name.replace('_', '-')}"
        words += [flag, *map(str, value)] if isinstance(value, tuple) else [f"{flag}={value}"]
    return words


def answer(rate: float) -> None:
    """Prints the rate and ends the process at once, because Reverb's threads abort a normal exit."""
    print(json.dumps(rate), flush=True)
    end_now(0)


def whole(program: str, flags: Sequence[str], seconds: float) -> dict[str, float]:
    """Runs a program for its first minute and for `seconds` more; returns medians of its rows, as `rows` has them.

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
def gpu_busy(devices: Sequence[Any] | None = None) -> Iterator[list[float]]:
    """Samples how busy GPUs are: a list with a sample of each GPU every 200 ms, which is filled at the block's end.

    Each is the share of the time in which a GPU computes anything at all, as NVIDIA's driver measures it; the rest it
    idles. The list stays empty without a GPU.

    Args:
      devices: the devices of JAX that are in use; None samples all GPUs that this process may use.
    """
    found: list[float] = []
    names = gpu_names(devices)
    if shutil.which("nvidia-smi") is None or names == []:
        yield found
        return
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "--loop-ms=200"]
    command += [f"--id={','.join(names)}"] if names else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sampling:
        try:
            yield found
        finally:
            sampling.terminate()
            printed, _ = sampling.communicate()
            found += [float(line) / 100 for line in printed.splitlines() if line.strip().isdigit()]


def gpu_names(devices: Sequence[Any] | None) -> list[str] | None:
    """What NVIDIA's driver calls the GPUs among JAX's `devices`, or all that this process may use; None for all."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = None if visible is None else [name for name in visible.split(",") if name]
    if devices is None:
        return names
    numbers = [device.local_hardware_id for device in devices if device.platform == "gpu"]
    return [names[number] if names else str(number) for number in numbers]


def share(values: Sequence[float]) -> str:
    """The mean of some shares in percent; a dash if there are none."""
    return f"{statistics.mean(values):.0%}" if values else "-"


def spread(values: Sequence[float], form: str) -> str:
    """The median of some values, the least and the greatest, each in this format, such as "2.0 (1.0-4.0)"."""
    median, least, greatest = (format(value, form) for value in (statistics.median(values), min(values), max(values)))
    return f"{median} ({least}-{greatest})"


def ratios(own: Sequence[float], *others: Sequence[float], form: str = ".2f") -> str:
    """The `spread` of the ratios of measurements that were made in turns; a dash without others.

    A machine grows slower and faster, so each measurement is compared with the one of its own turn.

    Args:
      own: measurements by turn.
      others: those that they are divided by; of several, those with the greatest median.
      form: the format of a ratio.
    """
    if not others:
        return "-"
    return spread([one / other for one, other in zip(own, max(others, key=statistics.median), strict=True)], form)


def figures(folder: pathlib.Path) -> list[dict[str, float]]:
    """The rows of a run, the oldest first, without what wasn't finite."""
    return [{name: value for name, value in row.items() if value is not None} for row in metrics.read(folder)]


def rows(program: str, flags: Sequence[str], seconds: float) -> list[dict[str, float]]:
    """The rows themselves of which `whole` returns the medians, the oldest first; see `steady`."""
    with tempfile.TemporaryDirectory() as folder:
        run_program(program, flags, folder, FIRST_S + seconds)
        return steady(figures(pathlib.Path(folder)), program)


def run_program(program: str, flags: Sequence[str], folder: str, seconds: float) -> None:
    """Runs a program of `programs/` from the command line in a run folder, until the run is so many seconds old."""
    command = [sys.executable, str(ROOT / "programs" / program), *flags, "--workdir", folder]
    limit = f"--stop.seconds={seconds}"
    subprocess.run([*command, limit], check=True, stdout=sys.stderr, timeout=seconds + END_S)


def steady(found: Sequence[dict[str, float]], program: str) -> list[dict[str, float]]:
    """The rows of a run after its first minute, without the last one, which the end cuts short.

    Raises:
      SystemExit: there are none; or no update was made before what the first of them counts.
    """
    first = next((i for i, row in enumerate(found) if row["seconds"] >= FIRST_S), len(found))
    kept = list(found[first:-1])
    if not kept:
        raise SystemExit(f"{program} has no row of metrics between {FIRST_S:.0f} s and its end: give more --seconds")
    if not any(row.get("updates", 0.0) > 0 for row in found[:first]):
        raise SystemExit(
            f"{program}: the learner made no update in the first {FIRST_S:.0f} s, so that the rows after them would "
            "show how it starts; where nothing else runs, it may start in time"
        )
    return kept


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
        reached = ratios(rates, [turn[wholes[label]] for turn in turns], form=".0%") if label in wholes else ""
        print(f"{label:50s} {rate:9,.0f} {extremes:>17s} {1e6 / rate:9,.0f}      {reached}")


def print_profile(row: dict[str, float]) -> None:
    """Prints the division of a thread's time in a whole program, and the memory of all nodes."""
    print("\nwhere a thread's time goes, as processes through Reverb:")
    for name, value in sorted(row.items(), key=lambda item: -item[1]):
        if name.startswith("share/") and value >= 0.01 and "resting" not in name:
            print(f"  {name.removeprefix('share/').replace('_', ' '):45s} {value:5.0%}")
    print(f"  resident memory of all nodes: {sum(v for k, v in row.items() if k.startswith('rss_mb/')) / 1000:.2f} GB")
