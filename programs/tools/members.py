"""Prints a population's table and draws its learning curves.

./run boonta members --workdir runs/population-catch
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import matplotlib
import numpy as np
from rich import console, table

from boonta.nodes import metrics
from boonta.programs.wiring.run import BadInput, command

matplotlib.use("agg")
from matplotlib import pyplot  # noqa: E402  # The backend must be chosen first.

MEASURED = (
    "member",
    "updates",
    "return",
    "loss",
    "eval_return",
    "eval_return_se",
    "eval_return_min",
    "eval_cut",
    "seed",
)
Key = tuple[tuple[str, float], ...]  # A combination of hyper-parameters: fields and their values.
Curves = dict[Key, dict[float, list[float]]]  # By combination and number of updates, the returns of its seeds.


def members(workdir: pathlib.Path, out: pathlib.Path | None = None) -> None:
    """Prints the last evaluation of each combination of hyper-parameters, best first, and draws the curves.

    Members that diverged are counted, and excluded from the returns.

    Args:
      workdir: the run's folder.
      out: picture file; default: members.png in the run's folder.
    """
    curves = curves_of(workdir)
    last = {key: curve[max(curve)] for key, curve in curves.items()}
    fields = [name for name, _ in next(iter(curves))]
    shown = table.Table(*fields, "seeds", "diverged", "eval return", "worst", "best")
    for key in sorted(last, key=lambda key: np.nan_to_num(-_spread(last[key])[1], nan=np.inf)):
        worst, mean, best = (f"{value:.3f}" for value in _spread(last[key]))
        diverged = str(int(np.sum(np.isnan(last[key]))))
        shown.add_row(*[f"{value:g}" for _, value in key], str(len(last[key])), diverged, mean, worst, best)
    console.Console().print(shown)
    target = out or workdir / "members.png"
    try:
        draw(curves, target)
    except (OSError, ValueError) as error:
        raise BadInput(f"--out {target} can't be written: {error}") from error
    print(target)


def curves_of(workdir: pathlib.Path) -> Curves:
    """Reads the evaluation returns of each combination, one per seed, by updates; NaN if a member diverged.

    Raises:
      BadInput: the folder has no evaluations of a population.
    """
    try:
        rows = metrics.read(workdir, metrics.MEMBERS)
    except OSError as error:
        raise BadInput(f"--workdir {workdir} has no {metrics.MEMBERS}: {error.strerror}") from error
    newest: dict[tuple[float, float], dict[str, float | None]] = {}
    for row in rows:
        updates, member = row.get("updates"), row.get("member")
        if updates is not None and member is not None:
            newest[updates, member] = row  # A resumed run repeats the evaluations after its checkpoint.
    if not newest:
        raise BadInput(f"--workdir {workdir} has no evaluation in {metrics.MEMBERS} yet")
    curves: Curves = {}
    for (updates, _), row in newest.items():
        key = tuple((name, value) for name, value in row.items() if name not in MEASURED and value is not None)
        value = row.get("eval_return") if row.get("loss", 0.0) is not None else None
        curves.setdefault(key, {}).setdefault(updates, []).append(np.nan if value is None else value)
    return curves


def draw(curves: Curves, target: pathlib.Path) -> None:
    """Draws a curve for each combination: the mean over seeds that haven't diverged, and the range of their returns."""
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for key, curve in curves.items():
        updates = sorted(curve)
        low, mean, high = zip(*(_spread(curve[number]) for number in updates))
        name = ", ".join(f"{name} {value:g}" for name, value in key)
        (line,) = axes.plot(updates, mean, label=name or "all")
        axes.fill_between(updates, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set(xlabel="updates", ylabel="evaluation return")
    axes.legend(fontsize="small")
    axes.grid(alpha=0.3)
    figure.savefig(target, dpi=110)
    pyplot.close(figure)


def _spread(returns: Sequence[float]) -> tuple[float, float, float]:
    """Returns the worst, mean and best return of the members that haven't diverged; NaN if all have."""
    sound = [value for value in returns if not np.isnan(value)] or [np.nan]
    return float(np.min(sound)), float(np.mean(sound)), float(np.max(sound))


def main() -> None:
    """The command line of `members`."""
    command(members)


if __name__ == "__main__":
    main()
