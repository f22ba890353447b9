"""Means of metrics and of their standard errors, which the metrics' names tell apart."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping

SE = "_se"  # How the names of standard errors end; the mean has the same name without it.
# The first letters of what an environment calls the numbers of actors' episodes, and of an evaluation's.
EPISODE, EVAL_EPISODE = "episode/", "eval_episode/"


def standard_error(values: Collection[float]) -> float | None:
    """The standard error of a mean of values; None where there are fewer than two, NaN where one isn't finite."""
    if len(values) < 2:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    try:
        return statistics.stdev(values) / math.sqrt(len(values))
    except OverflowError:  # Their squares have no room in a float.
        return math.nan


def mean(values: Iterable[float]) -> float:
    """The mean; NaN where it is none, such as that of both infinities."""
    try:
        return statistics.fmean(values)
    except (OverflowError, ValueError):
        return math.nan


def means(values: Mapping[str, Collection[float]]) -> dict[str, float]:
    """Means by name. Of standard errors, whose names end with `SE`, it is that of the mean of what they belong to.

    An evaluator all of whose episodes were cut has NaN for their numbers, which doesn't count beside those of others.
    """
    found = {}
    for name, each in values.items():
        there = [value for value in each if not math.isnan(value)] if name.startswith(EVAL_EPISODE) else []
        error = _is_error(name)
        found[name] = math.hypot(*each) / len(each) if error else mean(there or each)
    return found


def _is_error(name: str) -> bool:
    """Whether a metric is a standard error, and not a number that an environment calls as these are called."""
    return name.endswith(SE) and not name.startswith((EPISODE, EVAL_EPISODE))
