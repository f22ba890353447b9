"""Compares runs: final scores and learning curves with intervals, over seeds and environments, as a page.

./run boonta compare runs/impala-catch runs/muzero-catch
"""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import tyro
from rich.table import Table

from boonta.nodes import metrics
from boonta.nodes.snapshots import files, schema
from boonta.nodes.snapshots.store import BEST, CHECKPOINTS, LEARNERS, numbers
from boonta.programs.experiments import evaluations, figures, groups, origins, page, statistics, summary
from boonta.programs.experiments.curves import X, label_of
from boonta.programs.experiments.folders import COMPARISON, all_recorded, folder_of_all, folders_of
from boonta.programs.experiments.groups import Suite
from boonta.programs.experiments.page import Content
from boonta.programs.experiments.results import RETURN, TRAINING, Result, results_of_all
from boonta.programs.experiments.summary import Band
from boonta.programs.reports import tables
from boonta.programs.wiring.command_line.faults import command, writing
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder import journal
from boonta.programs.wiring.run_folder.provenance import source_digest
from boonta.programs.wiring.run_folder.state import state_of

DATA, PAGE, HTML, POINTS = "results.json", "page.md", "index.html", "curves.csv"
READ = (metrics.FILE, metrics.MEMBERS, evaluations.FILE, journal.FILE)  # A run's files besides its config.json files.
SNAPSHOTS = (*LEARNERS, f"{CHECKPOINTS}/{BEST}")


def compare(
    workdirs: tyro.conf.Positional[tuple[pathlib.Path, ...]],
    out: pathlib.Path | None = None,
    metric: str | None = None,
    which: Literal["newest", "best"] = "newest",
    reference: tuple[str, ...] = (),
    bar: float | None = None,
) -> None:
    """Compares runs, and writes a page with tables and pictures, unless there is an up-to-date page.

    Runs that differ in the seed alone make a group. Groups of several environments are compared as a suite, if each
    environment has the same ones.

    Args:
      workdirs: folders of runs and of sweeps.
      out: the page's folder; default: `comparison` in the folder that is given, or that holds all that are.
      metric: the metric to compare; default: eval_return, or return where a run has no evaluations.
      which: the checkpoint whose evaluations after the run, by `boonta evaluate`, count as final scores.
      reference: the returns that are the scores 0 and 1, as ENVIRONMENT=LOW,HIGH for each environment; default: the
        least and greatest final score of any run.
      bar: a value of the metric; the page shows when each run reaches it.

    Raises:
      BadInput: a folder holds no run or nothing to compare; the environments make no suite; or the page can't be
        written, or would replace files that no comparison has made.
    """
    folders = folders_of(workdirs)
    target = out or folder_of_all(workdirs) / COMPARISON
    options = {"metric": metric, "which": which, "reference": list(reference), "bar": bar}
    key = _key(folders, options)
    if (made := _made(target, key)) is not None:
        _print(made)
        print(f"nothing has changed since it was written: {target / HTML}")
        return
    runs, left_out = all_recorded(folders, (metric,) if metric else (RETURN, TRAINING))
    results, metric, warnings = results_of_all(runs, metric, which)
    suite = groups.suite_of(results)
    scale = summary.references(suite, reference)
    by_group = summary.normalised(suite, scale)
    content = Content(
        origins.command_of("compare", workdirs, {**options, "out": out}, {"which": "newest"}),
        metric,
        suite,
        scale,
        bool(reference),
        summary.improvements(by_group),
        bar,
        [*left_out, *warnings, *groups.warnings_of(suite)],
        captions(suite),
    )
    with writing(target):
        if out is not None:
            _require_ours(target, _files(content))
        target.mkdir(parents=True, exist_ok=True)
        # It is written last. Until then it says whose folder this is, with a key that is never up to date.
        files.write_whole(target / DATA, json.dumps({"key": "", "command": content.command, "files": []}).encode())
        with figures.only_showable():
            _draw(target, content)
        files.write_whole(target / POINTS, _points(content).encode())
        text = page.markdown(content)
        files.write_whole(target / PAGE, text.encode())
        files.write_whole(target / HTML, page.html(text, [target]).encode())
        made = _data(key, content)
        files.write_whole(target / DATA, (json.dumps(made, indent=1, allow_nan=False) + "\n").encode())
    _print(made)
    print(target / HTML)


def captions(suite: Suite) -> dict[str, str]:
    """The captions of a comparison's pictures, by their names."""
    label = label_of("env_steps", (one.counter for one in groups.results_in(suite)))
    found = {"curves_env_steps": f"Curves over {label}", "curves_seconds": "Curves over wall time"}
    if len(suite) > 1:
        found |= {
            "suite_env_steps": f"All environments, over {label}",
            "suite_seconds": "All environments, over wall time",
        }
    return {**found, "profiles": "Performance profiles"}


def _draw(target: pathlib.Path, content: Content) -> None:
    """Draws all pictures."""
    suite = content.suite
    results = groups.results_in(suite)
    origin, footer = origins.complete(content.command, results), origins.footer(results)

    def draw(name: str, panels: Mapping[str, Mapping[str, Band]], xlabel: str, ylabel: str) -> None:
        figures.draw(panels, target / name, xlabel, ylabel, origin, footer)

    axes: tuple[X, ...] = ("env_steps", "seconds")
    for x in axes:
        label = label_of(x, [one.counter for one in results])
        panels = {env: {group.name: summary.band(group, x) for group in each} for env, each in suite.items()}
        draw(f"curves_{x}", panels, label, content.metric)
        if len(suite) > 1:
            bands = summary.suite_bands(suite, content.reference, x)
            draw(f"suite_{x}", {"all environments": bands}, label, "normalised score")
    scores, label = summary.normalised(suite, content.reference), "normalised score"
    if len(suite) == 1:
        scores, label = (
            {group.name: [summary.scores(group)] for each in suite.values() for group in each},
            "final score",
        )
    draw("profiles", {"final scores": summary.profiles(scores)}, label, "share of runs above")


def _points(content: Content) -> str:
    """All points of all curves as CSV, for whoever draws them with tools of their own."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    counter = label_of("env_steps", (one.counter for one in groups.results_in(content.suite))).replace(" ", "_")
    rows.writerow(["environment", "group", "run", "member", "seed", counter, "seconds", content.metric])
    for env, each in content.suite.items():
        for group in each:
            for result in group.results:
                member = "" if result.member is None else result.member
                for point in zip(*result.curve):
                    rows.writerow([env, group.name, result.folder.name, member, result.seed, *map(float, point)])
    return text.getvalue()


def _key(folders: Iterable[pathlib.Path], options: Mapping[str, Any]) -> str:
    """The SHA-256 of everything that a comparison is made from."""
    digest = hashlib.sha256(json.dumps([source_digest(), options]).encode())
    for folder in folders:
        digest.update(f"{folder}\0{state_of(folder, journal.last_start(folder))}\0".encode())
        configs = folder.glob(f"{pathlib.Path(schema.CONFIG).stem}*.json")
        for path in sorted([*configs, *(folder / name for name in READ)]):
            if path.is_file():
                digest.update(f"{path.name} {files.sha256(path)}\0".encode())
        there = {name: numbers(folder / name) for name in SNAPSHOTS}  # They decide which evaluations count.
        digest.update(f"{there}\0".encode())
    return digest.hexdigest()


def _made(target: pathlib.Path, key: str) -> dict[str, Any] | None:
    """The figures of the comparison with this key, if the folder holds all of it."""
    try:
        recorded = json.loads((target / DATA).read_bytes())
        whole = recorded["key"] == key and all((target / name).is_file() for name in recorded["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return recorded if whole else None


def _files(content: Content) -> list[str]:
    """The names of all files of a comparison but `DATA`."""
    return [PAGE, HTML, POINTS, *figures.files(list(content.pictures))]


def _require_ours(target: pathlib.Path, names: Iterable[str]) -> None:
    """Raises BadInput if files would be replaced in a folder that isn't that of an earlier comparison."""
    there = [name for name in (DATA, *names) if (target / name).exists()]
    try:
        is_ours = {"key", "command", "files"} <= set(json.loads((target / DATA).read_bytes()))
    except (OSError, ValueError, TypeError):
        is_ours = False
    if there and not is_ours:
        raise BadInput(
            f"--out {target} has {', '.join(there)}, and no {DATA} of a comparison: choose a new folder, or one that a "
            "comparison has written"
        )


def _data(key: str, content: Content) -> dict[str, Any]:
    """All figures, for JSON."""
    environments = {
        env: {group.name: {"final": _plain(summary.final(group)), "runs": _runs(group.results)} for group in each}
        for env, each in content.suite.items()
    }
    by_group = summary.normalised(content.suite, content.reference)
    return {
        "key": key,
        "command": content.command,
        "metric": content.metric,
        "warnings": list(content.warnings),
        "environments": environments,
        "reference": {env: list(each) for env, each in content.reference.items()},
        "all": {name: _plain(statistics.estimate(tasks)) for name, tasks in by_group.items()},
        "improvements": [[one, other, _plain(found)] for one, other, found in content.improvements],
        "files": _files(content),
    }


def _runs(results: Sequence[Result]) -> list[dict[str, Any]]:
    return [
        {
            "folder": str(result.folder),
            "member": result.member,
            "seed": result.seed,
            **result.score._asdict(),
            result.counter: float(result.curve.env_steps[-1]),
            "seconds": float(result.curve.seconds[-1]),
        }
        for result in results
    ]


def _plain(found: summary.Estimate) -> dict[str, float | None]:
    """An estimate for JSON, which has no NaN."""
    return {name: float(value) if np.isfinite(value) else None for name, value in found._asdict().items()}


def _print(made: Mapping[str, Any]) -> None:
    """Prints the warnings, the final scores and the pictures of `_data`."""
    shown = Table("environment", "group", "runs", made["metric"], page.INTERVAL)
    for env, each in made["environments"].items():
        for name, group in each.items():
            final = summary.Estimate(*np.array([*group["final"].values()], float))  # What is null becomes NaN.
            shown.add_row(env, name, str(len(group["runs"])), page.number(float(final.value)), page.interval(final))
    for warning in made["warnings"]:
        print(f"warning: {warning}")
    tables.show(shown)
    print(f"pictures, each as .svg, too: {', '.join(name for name in made['files'] if name.endswith('.png'))}")


main = functools.partial(command, compare, OSError)
