"""A population's table and picture: `./run python -m programs.members --workdir runs/anakin_population_catch`."""

from __future__ import annotations

import json
import pathlib

import matplotlib
import numpy as np
from rich import console, table

from programs.run import BadInput, command

matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402  # after the backend is chosen

MEASURED = ("member", "updates", "return", "eval_return", "eval_return_min", "eval_cut", "seed")
Key = tuple[tuple[str, float], ...]  # what a combination of hyper-parameters is known by: fields and their values


def members(workdir: pathlib.Path, out: pathlib.Path | None = None) -> None:
    """Prints how each combination of hyper-parameters did in its last evaluation, the best first, and draws the curves.

    Args:
      workdir: the run's folder.
      out: picture file; default: members.png in the run's folder.
    """
    curves = curves_of(workdir)
    shown = table.Table(*[name for name, _ in next(iter(curves))], "seeds", "eval return", "worst", "best")
    for key in sorted(curves, key=lambda key: -float(np.mean(curves[key][max(curves[key])]))):
        last = curves[key][max(curves[key])]
        numbers = (f"{np.mean(last):.3f}", f"{min(last):.3f}", f"{max(last):.3f}")
        shown.add_row(*[f"{value:g}" for _, value in key], str(len(last)), *numbers)
    console.Console().print(shown)
    target = out or workdir / "members.png"
    try:
        draw(curves, target)
    except (OSError, ValueError) as error:
        raise BadInput(f"--out {target} can't be written: {error}") from error
    print(target)


def curves_of(workdir: pathlib.Path) -> dict[Key, dict[int, list[float]]]:
    """Each combination's evaluation returns, one a seed, by updates.

    Raises:
      BadInput: the folder holds no population's evaluations.
    """
    try:
        rows = [json.loads(line) for line in (workdir / "members.jsonl").read_text().splitlines()]
    except OSError as error:
        raise BadInput(f"--workdir {workdir} has no members.jsonl: {error.strerror}") from error
    curves: dict[Key, dict[int, list[float]]] = {}
    for row in rows:
        key = tuple((name, value) for name, value in row.items() if name not in MEASURED)
        curves.setdefault(key, {}).setdefault(row["updates"], []).append(row.get("eval_return", float("nan")))
    return curves


def draw(curves: dict[Key, dict[int, list[float]]], target: pathlib.Path) -> None:
    """Draws a curve for each combination: the mean over seeds, and a band from the worst to the best."""
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for key, curve in curves.items():
        updates = sorted(curve)
        low, mean, high = ([float(function(curve[u])) for u in updates] for function in (np.min, np.mean, np.max))
        name = ", ".join(f"{name} {value:g}" for name, value in key)
        (line,) = axes.plot(updates, mean, label=name or "all")
        axes.fill_between(updates, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set(xlabel="updates", ylabel="evaluation return")
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)
    figure.savefig(target, dpi=110)
    pyplot.close(figure)


def main() -> None:
    """The command line of `members`."""
    command(members)


if __name__ == "__main__":
    main()
