"""Draws runs' learning curves: `./run python -m programs.plot --workdir runs/impala_atari-Pong --out curve.png`."""

from __future__ import annotations

import pathlib
import sys

import matplotlib
import tyro

from nodes import metrics
from programs.launch import BadInput

matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402  # after the backend is chosen


def plot(workdir: tuple[pathlib.Path, ...], out: pathlib.Path, x: str = "env_steps") -> None:
    """Draws the mean return of training and evaluation over the course of one or several runs.

    Args:
      workdir: the runs' folders; each gets a colour and its name in the legend.
      out: the picture's file; its ending says which kind.
      x: what the course is counted in: env_steps, frames, updates or seconds.
    """
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for i, folder in enumerate(workdir):
        try:
            rows = metrics.read(folder)
        except OSError as error:
            raise BadInput(f"--workdir {folder} has no metrics: {error.strerror}") from error
        training = {row[x]: row["return"] for row in rows if x in row and row.get("return") is not None}
        evaluation = {
            row["eval_version"]: (row[x], row["eval_return"]) for row in reversed(rows) if "eval_version" in row
        }
        for kind, style, points in (("training", "-", training.items()), ("evaluation", ".", evaluation.values())):
            if points:
                axes.plot(*zip(*points), style, color=f"C{i}", label=f"{folder.name}: {kind}")
    axes.set(xlabel=x.replace("_", " "), ylabel="mean return")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(out, dpi=110)
    print(out)


def main() -> None:
    """The command line of `plot`."""
    try:
        tyro.cli(plot)
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
