"""The results of runs, read from their folders."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import pathlib
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from boonta.nodes import metrics
from boonta.nodes.snapshots import schema
from boonta.programs.experiments import curves, evaluations, scores
from boonta.programs.experiments.curves import Curve, Moment, Row
from boonta.programs.experiments.evaluations import Evaluated
from boonta.programs.experiments.settings import environment_of, settings_of
from boonta.programs.experiments.starts import starts_of
from boonta.programs.wiring.run import BadInput, Which
from boonta.programs.wiring.run_folder import journal
from boonta.programs.wiring.run_folder.config_file import Config, read_config
from boonta.programs.wiring.run_folder.provenance import Provenance
from boonta.programs.wiring.run_folder.state import sentence_of

RETURN, TRAINING = "eval_return", "return"
COUNTED = (*curves.COUNTERS, "seconds", curves.VERSION)  # What every curve needs of a row.


class NoCurve(BadInput):
    """A run has no value of the metric."""


class Recorded(NamedTuple):
    """What a run's files hold, of which `results_of` makes a metric's results.

    Attributes:
      folder: the run's folder.
      config: the content of its config.json.
      starts: the provenance of each start that has recorded it, the oldest first.
      past: its moments.
      names: the metrics of which its rows have values.
      members: the rows of all members; None where it is no population.
      warnings: about its end, and lines that were cut.
      asked: whether it was given by its own folder, and not as one of a sweep's.
    """

    folder: pathlib.Path
    config: Config
    starts: tuple[Provenance, ...]
    past: list[Moment]
    names: list[str]
    members: list[Row] | None
    warnings: tuple[str, ...]
    asked: bool


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of one learner: that of a run, or a member of a population.

    Attributes:
      folder: the run's folder.
      member: the member's number in a population; None in any other run.
      config: the content of the run's config.json.
      starts: the provenance of each start of the run that has recorded it, the oldest first.
      environment: the environment's name.
      seed: the learner's seed.
      settings: everything that was chosen for it but seed and game, by dotted name.
      curve: the curve of the metric that is compared.
      score: its final score.
      counter: what the curve's `env_steps` count, one of `curves.COUNTERS`.
    """

    folder: pathlib.Path
    member: int | None
    config: Config
    starts: tuple[Provenance, ...]
    environment: str
    seed: int
    settings: dict[str, Any]
    curve: Curve
    score: scores.Score
    counter: str

    @property
    def name(self) -> str:
        """The run's name in messages and tables."""
        return _name(self.folder, self.member)


def _name(folder: pathlib.Path, member: int | None) -> str:
    return folder.name if member is None else f"{folder.name}, member {member}"


def recorded(folder: pathlib.Path, asked: bool = True, wanted: Collection[str] | None = None) -> Recorded:
    """Reads the files of a run.

    Args:
      folder: the run's folder.
      asked: see `Recorded`.
      wanted: metrics that its moments need, or patterns of `fnmatch`; None keeps all, of a week's run a gigabyte.

    Raises:
      BadInput: it has no metrics, or its config.json is damaged.
    """
    config = read_config(folder)
    warnings = _ending(folder, config)
    patterns = ("*",) if wanted is None else (*COUNTED, *wanted)
    is_kept = functools.cache(lambda name: any(name == each or fnmatch.fnmatchcase(name, each) for each in patterns))
    names_of: dict[int, tuple[str, ...]] = {}  # By the kept row's `id`.
    shared = functools.cache(lambda names: names)  # Most rows have the same names.

    def kept(row: Row) -> Row:
        found = {name: value for name, value in row.items() if is_kept(name)}
        names_of[id(found)] = shared(tuple(name for name, value in row.items() if value is not None))
        return found

    rows = _rows(folder, metrics.FILE, warnings, kept)
    past = curves.moments(rows)
    names = list(dict.fromkeys(name for moment in past for name in names_of[id(moment.row)]))
    members = _rows(folder, metrics.MEMBERS, warnings) if (folder / metrics.MEMBERS).exists() else None
    starts, of_starts = starts_of(folder, config)
    return Recorded(folder, config, starts, past, names, members, (*warnings, *of_starts), asked)


def results_of_all(runs: Sequence[Recorded], metric: str | None, which: Which) -> tuple[list[Result], str, list[str]]:
    """The results of runs, the metric, and warnings, as by `results_of`.

    A run of a sweep that goes on or has failed is left out where it has no value, and named in a warning.

    Args:
      runs: the runs.
      metric: the metric to compare; None is "eval_return", or "return" where a run has no evaluations.
      which: the checkpoint whose evaluations after the run count.

    Raises:
      NoCurve: a run that is asked for, or has ended, has no value of the metric, or no run has one.
      BadInput: a run's evaluations can't be read.
    """
    try:
        found, late = _found(runs, metric or RETURN, which)
    except NoCurve as error:
        if metric is not None:
            raise
        metric = TRAINING
        found, late = _found(runs, metric, which)
        found[0][1].insert(0, f"returns are those of training, in which agents explore, since {error}")
    warnings = [*late, *(one for _, each in found for one in each)]
    results = [one for each, _ in found for one in each]
    offline = dict.fromkeys(one.folder.name for one in results if one.counter == "updates")
    if offline and any(one.counter == "env_steps" for one in results):
        warnings.append(
            f"{', '.join(offline)} counted no env steps, so the curve is over updates, beside others over env steps: "
            "only those over seconds compare"
        )
    return results, metric or RETURN, warnings


def _found(
    runs: Sequence[Recorded], metric: str, which: Which
) -> tuple[list[tuple[list[Result], list[str]]], list[str]]:
    """The results and warnings of each run that has a value, and a warning for each that is left out."""
    found: list[tuple[list[Result], list[str]]] = []
    late: list[NoCurve] = []
    for run in runs:
        try:
            found.append(results_of(run, metric, which))
        except NoCurve as error:
            if run.asked or journal.last_code(run.folder) == 0:
                raise
            late.append(error)
    if not found:
        raise late[0]
    return found, [f"{error}, and is left out" for error in late]


def metrics_of(run: Recorded) -> list[str]:
    """The metrics of which a run or the members of its population have values, in the order in which they came."""
    of_members = (name for row in run.members or [] for name, value in row.items() if value is not None)
    return list(dict.fromkeys([*of_members, *run.names]))


def results_of(run: Recorded, metric: str, which: Which) -> tuple[list[Result], list[str]]:
    """The results of a run, one for each member of a population, and warnings about its files.

    Args:
      run: the run.
      metric: the metric to compare.
      which: the checkpoint whose evaluations after the run count.

    Raises:
      NoCurve: the run has no value of the metric yet.
      BadInput: its evaluations can't be read.
    """
    warnings = list(run.warnings)
    folder, config = run.folder, run.config
    environment = environment_of(config)
    evaluated = _evaluations(folder, which, warnings) if metric == RETURN else {}
    updates = {each.updates for each in evaluated.values()}
    checkpoint = scores.checkpoint_now(folder, which, updates) if updates else None
    learners = _members(run, metric) or {None: ({}, curves.curve_of(run.past, metric))}
    if which == "best" and metric == RETURN and not learners.keys() <= evaluated.keys():
        warnings.append(
            f"{folder.name} has no evaluation of its best checkpoint after the run: the run's last one counts"
        )
    diverged = [str(member) for member, (row, _) in learners.items() if row.get("loss", 0.0) is None]
    if diverged:
        warnings.append(
            f"{folder.name}: members {', '.join(diverged)} diverged, their loss isn't finite; their evaluations count"
        )
    results, counter = [], curves.counter_of([moment.row for moment in run.past])
    for member, (row, curve) in learners.items():
        name = _name(folder, member)
        if not len(curve.values):
            raise NoCurve(f"{name} has no {metric} yet{_why_not(folder)}")
        settings, later = settings_of(config, environment, row), evaluated.get(member)
        if metric == RETURN:
            score, warning = scores.of_evaluations(curve, later, checkpoint, run.past, settings, len(learners))
            if warning and (line := f"{folder.name} {warning}") not in warnings:  # It is the same for all members.
                warnings.append(line)
        else:
            score = scores.Score(float(curve.values[-1]), f"last {metric} of the run", None)
        results.append(
            Result(
                folder,
                member,
                config,
                run.starts,
                environment,
                config.seed if member is None else int(row.get("seed") or 0),
                settings,
                curve,
                score,
                counter,
            )
        )
    return results, warnings


def _members(run: Recorded, metric: str) -> dict[int | None, tuple[Row, Curve]]:
    """The members of a population; none in any other run, or where they share the metric, such as one of a node's.

    Raises:
      NoCurve: there are no rows of members yet.
    """
    if run.members == []:
        raise NoCurve(f"{run.folder.name} has no evaluation in {metrics.MEMBERS} yet{_why_not(run.folder)}")
    rows = run.members or []
    if not any(metric in row for row in rows):
        return {}
    return {member: row_and_curve for member, row_and_curve in curves.member_curves(rows, run.past, metric).items()}


def _rows(
    folder: pathlib.Path, file: str, warnings: list[str], kept: Callable[[Row], Row] = lambda row: row
) -> list[Row]:
    """What is kept of the rows of a file; `warnings` gets one more if lines are lost."""
    rows, malformed = [], []
    try:
        for number, row in schema.each_line(schema.ROW, folder / file):
            if row is None:
                malformed.append(number)
            else:
                rows.append(kept(row))
    except OSError as error:
        raise BadInput(f"{folder} has no {file}: {error.strerror}") from error
    warnings += _lost(folder, file, malformed)
    return rows


def _evaluations(folder: pathlib.Path, which: Which, warnings: list[str]) -> dict[int | None, Evaluated]:
    """The last evaluation after the run of each member, or of None in a run without members; see `_rows`."""
    try:
        lines, malformed = evaluations.read(folder)
    except OSError as error:
        raise BadInput(f"{folder / evaluations.FILE} can't be read: {error.strerror}") from error
    warnings += _lost(folder, evaluations.FILE, malformed)
    return {line.member: line for line in lines if line.which == which and line.returns}


def _lost(folder: pathlib.Path, file: str, malformed: Sequence[int]) -> list[str]:
    if not malformed:
        return []
    more = f"{len(malformed)} lines of {file}, the first of them {malformed[0]}, are"
    lines = f"line {malformed[0]} of {file} is" if len(malformed) == 1 else more
    return [f"{folder.name}: {lines} cut or malformed, and left out"]


def _ending(folder: pathlib.Path, config: Config) -> list[str]:
    """A warning about a run that goes on, or hasn't been ended by its stop rule."""
    if journal.last_code(folder) == 0:
        return []
    what = "has not reached its" if config.has_stop_rule else "has no"
    return [f"{folder.name} {what} stop rule: {sentence_of(folder)}"]


def _why_not(folder: pathlib.Path) -> str:
    """What a run does, or how it ended, in brackets; empty if its stop rule has ended it."""
    return "" if journal.last_code(folder) == 0 else f" ({sentence_of(folder)})"
