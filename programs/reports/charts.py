"""The charts of a run: returns, rates, what each group spends its time on, the learner's metrics, and memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args

import numpy as np

from boonta.programs.experiments import curves
from boonta.programs.experiments.curves import Curve, Moment, X, counter_of, label_of
from boonta.programs.experiments.results import RETURN, TRAINING
from boonta.programs.experiments.statistics import Estimate
from boonta.programs.experiments.summary import Band
from boonta.programs.reports.meanings import GROUPS

MOST_POINTS = 400  # Longer curves are drawn by the means of so many parts.
LEAST_SHARE = 0.02  # Activities that never take more of a group's time aren't drawn.
# The groups of metrics that have no panels, since other charts or parts of the page show them.
ELSEWHERE = ("Counters", "Rates", "Episodes of actors", "Processes", "Populations", "Health")
SHARE = re.compile(r"share/([^/]+)/(.+)")


class Chart(NamedTuple):
    """A picture with panels.

    Attributes:
      caption: its title.
      panels: by title, the curves by name.
      xlabel, ylabel: the names of the axes.
    """

    caption: str
    panels: Mapping[str, Mapping[str, Band]]
    xlabel: str
    ylabel: str


def charts(past: Sequence[Moment]) -> dict[str, Chart]:
    """All charts for which the moments of a run have values, by file name."""
    found = {f"returns_{x}": _returns(past, x) for x in get_args(X)}
    rates = {name: {name: _band(past, name)} for name in ("env_steps_per_s", "updates_per_s")}
    found["throughput"] = _over_time("Throughput", rates, "per second")
    for group, shares in _shares(past).items():
        found[f"time_{group}"] = _over_time(f"How {group} spends its time", {group: shares}, "share of time")
    names = [metric.name for title, each in GROUPS.items() if title not in ELSEWHERE for metric in each]
    learning = {name: {name: _band(past, name)} for name in dict.fromkeys(names) if _varies(past, name)}
    found["learning"] = _over_time("Learning", learning)
    memory = {name.removeprefix("rss_mb/"): _band(past, name) for name in _names(past) if name.startswith("rss_mb/")}
    found["memory"] = _over_time("Resident memory", {"memory": memory}, "MB")
    return {name: chart for name, chart in found.items() if chart.panels}


def _over_time(caption: str, panels: Mapping[str, Mapping[str, Band]], ylabel: str = "") -> Chart:
    full = {title: {name: band for name, band in each.items() if len(band.x)} for title, each in panels.items()}
    return Chart(caption, {title: each for title, each in full.items() if each}, label_of("seconds", ()), ylabel)


def _returns(past: Sequence[Moment], x: X) -> Chart:
    labels = {"evaluation": RETURN, "training": TRAINING, "Elo": "arena/elo"}
    bands = {label: _of(curves.curve_of(past, metric), x) for label, metric in labels.items()}
    bands = {label: band for label, band in bands.items() if len(band.x)}
    label = label_of(x, [counter_of([moment.row for moment in past])])
    return Chart(f"Returns over {label}", {"returns": bands} if bands else {}, label, "return")


def _shares(past: Sequence[Moment]) -> dict[str, dict[str, Band]]:
    """The share of a group's time that goes to each activity, by group and activity."""
    found: dict[str, dict[str, Band]] = {}
    for name in _names(past):
        match = SHARE.fullmatch(name)
        if match and max(moment.row.get(name) or 0.0 for moment in past) >= LEAST_SHARE:
            found.setdefault(match[1], {})[match[2].replace("_", " ")] = _band(past, name)
    return found


def _names(past: Sequence[Moment]) -> list[str]:
    return list(dict.fromkeys(name for moment in past for name in moment.row))


def _varies(past: Sequence[Moment], name: str) -> bool:
    return len({moment.row.get(name) for moment in past} - {None}) > 1


def _band(past: Sequence[Moment], name: str) -> Band:
    """A metric over wall time, without an interval."""
    return _of(curves.curve_of(past, name), "seconds")


def _of(curve: Curve, x: X) -> Band:
    points, values = curve.on(x), curve.values
    if len(points) > MOST_POINTS:
        points, values = (
            np.array([part.mean() for part in np.array_split(each, MOST_POINTS)]) for each in (points, values)
        )
    nothing = np.full(len(points), np.nan)
    return Band(points, Estimate(values, nothing, nothing))
