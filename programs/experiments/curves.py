"""Learning curves: the values of a metric in a run's files, by env steps and by seconds.

Glossary of shapes: N points of a curve, G points of a grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from boonta.nodes.metrics import has_counted, step_of

Row = dict[str, float | None]
X = Literal["env_steps", "seconds"]
COUNTERS = {"env_steps": "env steps", "updates": "updates"}  # The names of the axes that "env_steps" stands for.
VERSION = "eval_version"  # The number of updates of the params that were evaluated.
EVALUATED = "eval_"  # The first letters of metrics that evaluations measure.


class Moment(NamedTuple):
    """A row of metrics, and the counters at that time.

    Attributes:
      env_steps: env steps so far; in a run that counts none, as offline, its updates.
      seconds: wall time of the run so far.
      updates: updates so far.
      row: all of its metrics.
    """

    env_steps: float
    seconds: float
    updates: float
    row: Row


class Curve(NamedTuple):
    """The values of a metric, in the order in which they came; neither axis ever goes back.

    Attributes:
      env_steps: env steps of all actors together, or updates, see `Moment`, [N].
      seconds: wall time of the run, [N].
      values: the metric, [N].
    """

    env_steps: np.ndarray
    seconds: np.ndarray
    values: np.ndarray

    def on(self, x: X) -> np.ndarray:
        """The points of an axis, [N]."""
        return self.env_steps if x == "env_steps" else self.seconds


def moments(rows: Sequence[Row]) -> list[Moment]:
    """The moments of a run, without those that it repeated after it had gone back to a checkpoint.

    A counter that a row lacks is 0, since nothing has been counted yet. Where something has, the row isn't one of the
    run's moments: a run of 0.2.0 that went on wrote such rows before it had its counters back.
    """
    kept: list[Moment] = []
    counter = counter_of(rows)
    for row in rows:
        env_steps, seconds, updates = (row.get(name) or 0.0 for name in (counter, "seconds", "updates"))
        now = Moment(env_steps, seconds, updates, row)
        if kept and has_counted(kept[-1].row) and not has_counted(row):
            continue
        while kept and (kept[-1].env_steps > now.env_steps or kept[-1].seconds > now.seconds):
            kept.pop()
        kept.append(now)
    return kept


def counter_of(rows: Sequence[Row]) -> str:
    """The counter, one of `COUNTERS`, that orders a run's rows, by the last one that has counted anything."""
    return next((step_of(row)[0] for row in reversed(rows) if has_counted(row)), "env_steps")


def label_of(x: X, counters: Iterable[str]) -> str:
    """The name of an axis of runs with these counters."""
    return "wall time in seconds" if x == "seconds" else " or ".join(COUNTERS[each] for each in sorted({*counters}))


def curve_of(past: Sequence[Moment], metric: str) -> Curve:
    """A metric's curve; one that evaluations measure has a point for each, at the moment at which its params were made.

    Args:
      past: the run's moments.
      metric: the metric's name.
    """
    points: list[tuple[float, float, float]] = []
    last: tuple[float, float] | None = None
    for i, moment in enumerate(past):
        value, version = moment.row.get(metric), moment.row.get(VERSION)
        if value is None or (metric.startswith(EVALUATED) and version is None):
            continue
        at = moment.env_steps, moment.seconds
        if metric.startswith(EVALUATED):
            assert version is not None
            if last == (version, value):
                continue  # Each row repeats the last evaluation until there is a new one.
            last, at = (version, value), _made_at(past, i, version)
        points.append((*at, value))
    return _curve(points)


def member_curves(rows: Sequence[Row], past: Sequence[Moment], metric: str) -> dict[int, tuple[Row, Curve]]:
    """The last row and the curve of each member of a population, by its number.

    A population's metrics count the env steps of all members, which have equal shares of them.

    Args:
      rows: the rows of all members.
      past: the run's moments.
      metric: the metric's name.
    """
    by_member: dict[int, list[Row]] = {}
    for row in rows:
        member, updates = row.get("member"), row.get("updates")
        if member is None or updates is None:
            continue
        kept = by_member.setdefault(int(member), [])
        while kept and (kept[-1]["updates"] or 0.0) >= updates:
            kept.pop()  # A run that has gone back to a checkpoint repeats the evaluations after it.
        kept.append(row)
    updates_then, *axes = np.array([[each.updates, each.env_steps, each.seconds] for each in past]).reshape(-1, 3).T
    found = {}
    for member, kept in sorted(by_member.items()):
        points = []
        for row in kept:
            value = row.get(metric)
            if value is not None and len(past):
                env_steps, seconds = (float(np.interp(row["updates"] or 0.0, updates_then, axis)) for axis in axes)
                points.append((env_steps / len(by_member), seconds, value))
        found[member] = kept[-1], _curve(points)
    return found


def grid(curves: Sequence[Curve], x: X, most: int = 201) -> np.ndarray:
    """Points at which all curves have a value, [G]: none before the last one begins, none after the first one ends.

    They are the curves' own points, or if these are too many, points at equal distances. There are none where the
    curves don't overlap.

    Args:
      curves: the curves, of which none may be empty.
      x: the axis.
      most: the greatest G.
    """
    first, last = max(curve.on(x)[0] for curve in curves), min(curve.on(x)[-1] for curve in curves)
    own = np.unique(np.concatenate([curve.on(x) for curve in curves]))
    within = own[(own >= first) & (own <= last)]
    return within if len(within) <= most else np.linspace(first, last, most)


def at(curve: Curve, x: X, points: np.ndarray) -> np.ndarray:
    """The newest value at each of the points [G], which lie within the curve: it goes up and down in steps."""
    return curve.values[np.searchsorted(curve.on(x), points, side="right") - 1]


def reaches(curve: Curve, bar: float) -> tuple[float, float] | None:
    """The env steps and the seconds after which a curve's values are at least `bar` for the first time; None: never."""
    above = np.flatnonzero(curve.values >= bar)
    return (float(curve.env_steps[above[0]]), float(curve.seconds[above[0]])) if len(above) else None


def _made_at(past: Sequence[Moment], i: int, version: float) -> tuple[float, float]:
    """When the params of this version were made, of which the moment `i` is the first to have an evaluation.

    A row's counters are those of the nodes' last heartbeats, so its updates may be fewer than the version of an
    evaluation that has just come. The env steps are then those of a later moment, up to that at which a learner went
    back to a checkpoint; the seconds are still those of the moment `i` at most.
    """
    j = i
    while j > 0 and past[j].updates > version:
        j -= 1
    while j + 1 < len(past) and past[j].updates <= past[j + 1].updates < version:
        j += 1
    before, after = past[j], past[min(j + 1, len(past) - 1)]
    share = 0.0
    if before.updates < min(version, after.updates):
        share = (version - before.updates) / (after.updates - before.updates)
    env_steps, seconds = (a + share * (b - a) for a, b in zip(before[:2], after[:2]))
    return env_steps, min(seconds, past[i].seconds)


def _curve(points: Sequence[tuple[float, float, float]]) -> Curve:
    env_steps, seconds, values = np.array(points, float).reshape(-1, 3).T
    # A learner that has gone back while the actors went on makes an older number of updates again.
    return Curve(np.maximum.accumulate(env_steps), np.maximum.accumulate(seconds), values)
