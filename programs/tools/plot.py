"""Draws metrics of runs: a panel for each metric and environment, a curve for runs that differ in the seed alone.

./run boonta plot runs/impala-catch runs/muzero-catch
./run boonta plot runs/impala-catch --metric loss entropy 'share/learner/*' --x seconds
"""

from __future__ import annotations

import fnmatch
import functools
import pathlib
from collections.abc import Sequence

import tyro

from boonta.envs.base import suggest
from boonta.programs.experiments import figures, groups, origins, summary
from boonta.programs.experiments.curves import X, label_of
from boonta.programs.experiments.folders import PICTURES, all_recorded, folder_of_all, folders_of
from boonta.programs.experiments.results import RETURN, TRAINING, Result, metrics_of, results_of_all
from boonta.programs.experiments.summary import Band
from boonta.programs.wiring.command_line.faults import command, writing
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder import naming


def plot(
    workdirs: tyro.conf.Positional[tuple[pathlib.Path, ...]],
    metric: tuple[str, ...] = (),
    x: X = "env_steps",
    out: pathlib.Path | None = None,
) -> None:
    """Draws metrics of runs into one picture.

    A curve is the interquartile mean of a group of runs that differ in the seed alone, with an interval of 95 % where
    there are two or more; `boonta compare` has statistics of final scores.

    Args:
      workdirs: folders of runs and of sweeps.
      metric: metrics to draw, as `boonta metrics` lists them, or patterns such as share/learner/*; default:
        eval_return, or return where a run has no evaluations.
      x: what the curves are over.
      out: the picture's file, a .png, .svg or .pdf; default: plot.png in the folder that is given, or that holds all
        that are, with the metrics and the axis that are given in its name, as in plot-loss-seconds.png.

    Raises:
      BadInput: a folder holds no run; no run has a metric; the environments make no suite; or the picture can't be
        written.
    """
    runs, left_out = all_recorded(folders_of(workdirs), metric or (RETURN, TRAINING))
    target = out or folder_of_all(workdirs) / f"{_name(metric, x)}.png"
    if target.suffix not in PICTURES:
        raise BadInput(f"--out {target} must end with {', '.join(PICTURES)}")
    panels: dict[str, dict[str, Band]] = {}
    drawn: dict[tuple[pathlib.Path, int | None], Result] = {}  # Of all pictures, each run or member once.
    warnings = dict.fromkeys(left_out)
    measured = [(run, metrics_of(run)) for run in runs] if metric else []
    chosen: Sequence[str | None] = _named(metric, [names for _, names in measured]) if metric else (None,)
    for each in chosen:
        having = [run for run, names in measured if each in names] if metric else runs
        found, name, of_it = results_of_all(having, each, "newest")
        if lacking := ", ".join(run.folder.name for run, names in measured if each not in names):
            warnings[f"no {each}, so left out of its picture: {lacking}"] = None
        suite = groups.suite_of(found)
        warnings |= dict.fromkeys([*of_it, *groups.shortened(suite, x)])
        panels |= _panels(suite, name, x)
        drawn |= {(one.folder, one.member): one for one in found}
    made_by = origins.command_of("plot", workdirs, {"metric": list(metric), "x": x, "out": out}, {"x": "env_steps"})
    _write(panels, target, x, made_by, list(drawn.values()))
    for warning in warnings:
        print(f"warning: {warning}")
    print(target)


def _name(asked: Sequence[str], x: X) -> str:
    """The name of a picture of these metrics or patterns, over this axis."""
    metrics = (naming.slug(text.replace("*", "all")) for text in asked)
    return naming.joined(["plot", *metrics, x if x != "env_steps" else ""])


def _named(asked: Sequence[str], of_runs: Sequence[Sequence[str]]) -> list[str]:
    """The metrics that names and patterns mean, each once; a pattern means those that all runs have.

    Args:
      asked: the names and patterns.
      of_runs: the metrics of each run.

    Raises:
      BadInput: no run has one of that name, or no metric of all runs fits a pattern.
    """
    shared = [name for name in of_runs[0] if all(name in names for names in of_runs)]
    found: dict[str, None] = {}
    for text in asked:
        exact = [text] if any(text in names for names in of_runs) else []
        fitting = exact or [name for name in shared if fnmatch.fnmatchcase(name, text)]
        if not fitting:
            several = text.replace(",", " ")
            known = list(dict.fromkeys(name for names in of_runs for name in names))
            hint = suggest(text, known) if several == text else f"spaces divide several: --metric {several}"
            raise BadInput(f"--metric {text}: no run has such a metric: {hint}")
        found |= dict.fromkeys(fitting)
    return list(found)


def _panels(suite: groups.Suite, metric: str, x: X) -> dict[str, dict[str, Band]]:
    """The curves of a metric in each environment, by a panel's title and a group's name."""
    return {
        metric if len(suite) == 1 else f"{metric}, {environment}": {each.name: summary.band(each, x) for each in found}
        for environment, found in suite.items()
    }


def _write(
    panels: dict[str, dict[str, Band]], target: pathlib.Path, x: X, made_by: str, results: Sequence[Result]
) -> None:
    """Writes the picture.

    Raises:
      BadInput: it can't be drawn or written.
    """
    origin, footer = origins.complete(made_by, results), origins.footer(results)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        label = label_of(x, [one.counter for one in results])
        with figures.only_showable():
            figures.draw(panels, target.with_suffix(""), label, "", origin, footer, [target.suffix[1:]])


main = functools.partial(command, plot, OSError)
