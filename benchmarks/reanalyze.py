"""Measures data efficiency: the env steps that MuZero needs for a return, without and with reanalyze, over seeds.

    ./run python benchmarks/reanalyze.py --out curves.png
    ./run python benchmarks/reanalyze.py --out curves.png --workdir runs/breakout --seeds 2 --eval-return None \\
        --plain "muzero.py minatar/breakout --env.minimal-actions --stop.env-steps 300000" \\
        --reanalyze "reanalyze.py minatar/breakout --env.minimal-actions --stop.env-steps 150000"
    ./run python benchmarks/reanalyze.py --out curves.png --workdir runs/few --flags="--num-envs 8"

It runs whole programs one after the other and keeps their folders. Finished runs are only read, so an interrupted
comparison continues where it stopped; it must have the same options.
"""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
import statistics
import subprocess
import sys

import matplotlib
import tyro

from boonta.benchmarks.timing import ROOT, figures

matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402  # The backend must be chosen first.


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the benchmark.

    Attributes:
      out: the picture of all curves.
      workdir: the folder with a folder for each run.
      plain: the program without reanalyze, and its arguments.
      reanalyze: the program with reanalyze, and its arguments.
      flags: flags of both programs; as they begin with a dash, they follow `--flags=` without a space.
      seeds: number of runs of each program.
      eval_return: the evaluation return that ends a run, and whose env steps are compared. With None, the return to
        reach is that of the plain run at its end, a mean over the last hundred training episodes; the programs'
        arguments must then end the runs.
    """

    out: pathlib.Path
    workdir: pathlib.Path = pathlib.Path("runs/reanalyze")
    plain: str = "muzero.py catch"
    reanalyze: str = "reanalyze.py catch"
    flags: str = ""
    seeds: int = 5
    eval_return: float | None = 0.95


def main(options: Options) -> None:
    """Runs the programs, prints the table and draws the curves."""
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    ways = {"plain": options.plain, "reanalyze": options.reanalyze}
    needed: dict[str, list[float]] = {way: [] for way in ways}
    print(f"{'seed':>4s} {'plain':>9s} {'reanalyze':>9s} {'ratio':>6s}   env steps to a return of")
    for seed in range(options.seeds):
        level, metric = options.eval_return, "eval_return"
        for i, (way, program) in enumerate(ways.items()):
            rows = run(options.workdir / f"{way}-{seed}", shlex.split(program), seed, options)
            if level is None:
                level, metric = rows[-1]["return"], "return"
            steps = [row["env_steps"] for row in rows if row.get(metric, float("-inf")) >= level]
            needed[way].append(steps[0] if steps else float("inf"))
            curve = [(row["env_steps"], row["return"]) for row in rows if row.get("return") is not None]
            axes.plot(*zip(*curve), color=f"C{i}", label=way if seed == 0 else None)
        plain, again = (steps[-1] for steps in needed.values())
        print(f"{seed:4d} {plain:9,.0f} {again:9,.0f} {again / plain:6.2f}   {level:.2f}", flush=True)
    plain, again = (statistics.median(steps) for steps in needed.values())
    print(f"{'mid':>4s} {plain:9,.0f} {again:9,.0f} {again / plain:6.2f}")
    axes.set(xlabel="env steps", ylabel="mean return of the last 100 episodes")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(options.out, dpi=110)


def run(folder: pathlib.Path, program: list[str], seed: int, options: Options) -> list[dict[str, float]]:
    """Returns the metrics of a run, which it runs first unless the run's folder has them.

    Raises:
      SystemExit: the folder has those of a run with another command.
    """
    stop = [] if options.eval_return is None else [f"--stop.eval-return={options.eval_return}"]
    command = [*program, *shlex.split(options.flags), f"--seed={seed}", *stop]
    done, asked = folder / "done", shlex.join(command)
    if not done.exists():
        file = str(ROOT / "programs" / command[0])
        subprocess.run([sys.executable, file, *command[1:], f"--workdir={folder}"], check=True, stdout=sys.stderr)
        done.write_text(asked)
    elif (ran := done.read_text()) != asked:
        raise SystemExit(f"{folder} has a run of {ran or 'an unknown command'!r}, not of {asked!r}: give --workdir")
    return figures(folder)


if __name__ == "__main__":
    main(tyro.cli(Options))
