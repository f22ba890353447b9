"""Draws runs' learning curves.

./run boonta plot --workdir runs/impala_atari-Pong --out curve.png
"""

from __future__ import annotations

import pathlib
from typing import Literal

import matplotlib

from boonta.nodes import metrics
from boonta.programs.wiring.run import BadInput, command

matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402  # The backend must be chosen first.

X = Literal["env_steps", "frames", "updates", "seconds"]


def plot(workdir: tuple[pathlib.Path, ...], out: pathlib.Path, x: X = "env_steps") -> None:
    """Draws the mean training and evaluation returns of one or several runs.

    Args:
      workdir: the runs' folders; each run has a colour and its name in the legend.
      out: the picture's file; its extension decides the format.
      x: the unit of the horizontal axis.

    Raises:
      BadInput: a folder holds no curve, or the picture can't be written.
    """
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for i, folder in enumerate(workdir):
        try:
            rows = metrics.read(folder)
        except OSError as error:
            raise BadInput(f"--workdir {folder} has no metrics: {error.strerror}") from error
        rows = [row for row in rows if row.get(x) is not None]
        training = [(row[x], row["return"]) for row in rows if row.get("return") is not None]
        evaluation = {  # Each evaluation has one point, at the steps at which it was first reported.
            row["eval_version"]: (row[x], row["eval_return"])
            for row in reversed(rows)
            if row.get("eval_return") is not None and row.get("eval_version") is not None
        }
        if not training and not evaluation:
            raise BadInput(f"--workdir {folder} has no returns by {x} yet")
        for kind, style, points in (("training", "-", training), ("evaluation", ".", evaluation.values())):
            if points:
                axes.plot(*zip(*points), style, color=f"C{i}", label=f"{folder.name}: {kind}")
    axes.set(xlabel=x.replace("_", " "), ylabel="mean return")
    axes.legend()
    axes.grid(alpha=0.3)
    try:
        figure.savefig(out, dpi=110)
    except (OSError, ValueError) as error:
        raise BadInput(f"--out {out} can't be written: {error}") from error
    print(out)


def main() -> None:
    """The command line of `plot`."""
    command(plot)


if __name__ == "__main__":
    main()
