"""Rows of metrics: what the monitor makes of nodes' reports."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from boonta.nodes.watch.means import mean, means, standard_error

EVALUATION = ("eval_return", "eval_return_se", "eval_version", "eval_started")  # The metrics that learners get.
RECENT = 100  # Samples, such as episode returns, that a mean is taken over.


def measured(reports: Iterable[Mapping[str, Any]], away: Collection[str]) -> dict[str, dict[str, float]]:
    """The latest metrics in nodes' reports: by the metric's name, then by the node's.

    Nodes that are away count only for what nobody else measures, so that the last value stays.
    """
    values: dict[str, dict[str, float]] = collections.defaultdict(dict)
    for report in reports:
        for metric, value in report["metrics"].items():
            values[metric][report["name"]] = value
    there = {
        metric: {name: by_name[name] for name in by_name if name not in away} for metric, by_name in values.items()
    }
    return {metric: there[metric] or by_name for metric, by_name in values.items()}


def evaluation(reports: Iterable[Mapping[str, Any]], away: Collection[str]) -> dict[str, float]:
    """What learners get of the last evaluation: means over the evaluators' reports."""
    by_metric = measured(reports, away)
    return means({name: by_metric[name].values() for name in EVALUATION if name in by_metric})


class Mark(NamedTuple):
    """The counters of a program at one moment. The rates of a row compare two of these.

    Attributes:
      at: the moment, in seconds of any clock that never goes back.
      totals: the program's counters.
      seconds: the seconds that a thread of each node has spent on each activity, by the node's name and its life.
    """

    at: float
    totals: Mapping[str, float]
    seconds: Mapping[tuple[str, str], Mapping[str, float]]


def mark(at: float, totals: Mapping[str, float], reports: Iterable[Mapping[str, Any]]) -> Mark:
    """The moment `at` of a program, by its counters and its nodes' newest reports."""
    return Mark(at, totals, {(report["name"], report["life"]): dict(report["seconds"]) for report in reports})


def shares(before: Mark, now: Mark) -> dict[str, float]:
    """Shares of time by "group/activity", a mean over those nodes of a group, such as "actor", that have done anything.

    So a node that comes or goes shifts no share of the others.
    """
    elapsed = max(now.at - before.at, 1e-9)
    total: dict[str, float] = collections.defaultdict(float)
    found: list[tuple[str, dict[str, float]]] = []
    for node, seconds in now.seconds.items():
        earlier = before.seconds.get(node, {})
        spent = {activity: value - earlier.get(activity, 0.0) for activity, value in seconds.items()}
        whole = max(elapsed, sum(spent.values()))  # Reports come at other times than rows, and a new life began before.
        if any(spent.values()):
            found.append((node[0].split("/")[0], {activity: value / whole for activity, value in spent.items()}))
    size = collections.Counter(group for group, _ in found)
    for group, spent in found:
        for activity, share in spent.items():
            total[f"{group}/{activity.replace(' ', '_')}"] += share / size[group]
    return dict(total)


class Samples:
    """What nodes have sampled, such as the returns of episodes: the newest of each, and the first returns of a run."""

    def __init__(self) -> None:
        self._recent: dict[str, collections.deque[float]] = collections.defaultdict(
            lambda: collections.deque(maxlen=RECENT)
        )
        self._first: list[float] | None = []
        self._last: dict[str, Mapping[str, Any]] = {}  # The nodes' last reports.

    def add(self, report: Mapping[str, Any]) -> None:
        """Adds the samples of a node's report, in the order of its reports.

        If the answer to its last one was lost, this report begins with the samples of that, which are here already.
        """
        before, self._last[report["name"]] = self._last.get(report["name"]), report
        repeats = before is not None and before["life"] == report["life"] and before["number"] > report["acknowledged"]
        seen = before["samples"] if before is not None and repeats else {}
        new = {name: values[len(seen.get(name, ())) :] for name, values in report["samples"].items()}
        for name, values in new.items():
            self._recent[name].extend(values)
        if self._first is not None:
            self._first += new.get("return", ())[: RECENT - len(self._first)]

    @property
    def has_episodes(self) -> bool:
        """Whether an episode has ended."""
        return bool(self._recent.get("return"))

    def forget_start(self) -> None:
        """Notes that the params were trained before: the first returns are not those of fresh ones."""
        self._first = None

    def metrics(self) -> dict[str, float]:
        """Means of the newest; of returns also the standard error, their number, and the mean at the start."""
        found = means({name: values for name, values in self._recent.items() if values})
        returns = self._recent.get("return", ())
        error = standard_error(returns)
        if error is not None:
            found |= {"return_se": error, "return_episodes": float(len(returns))}
        if self._first is not None and len(self._first) == RECENT:
            found["return_start"] = mean(self._first)
        return found


def row_of(
    before: Mark, now: Mark, samples: Samples, reports: Collection[Mapping[str, Any]], away: Collection[str]
) -> dict[str, float]:
    """A row of metrics: totals, rates since the mark before, means of recent samples, and nodes' latest metrics.

    Nodes that are `away` have no part in these metrics, unless nobody else measures them.
    """
    elapsed = max(now.at - before.at, 1e-9)
    row = dict(now.totals)
    for name in ("env_steps", "frames", "updates"):
        row[f"{name}_per_s"] = (now.totals.get(name, 0.0) - before.totals.get(name, 0.0)) / elapsed
    row.update(samples.metrics())
    by_metric = measured(reports, away)
    row.update(means({metric: values.values() for metric, values in by_metric.items()}))
    for metric, values in by_metric.items():
        if len(values) > 1:  # Each node's own value is logged, too.
            row.update({f"{metric}/{name}": value for name, value in values.items()})
    if "eval_version" in row:
        row["eval_age"] = max(0.0, row.get("updates", 0.0) - row["eval_version"])
    row.update({f"rss_mb/{report['name']}": report["rss_mb"] for report in reports if report["name"] not in away})
    row.update({f"share/{key}": value for key, value in shares(before, now).items()})
    return row
