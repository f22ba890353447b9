"""The numbers of a comparison: final scores, curves, profiles and probabilities of improvement, each with an interval.

Glossary of shapes: R runs, G points of a grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from boonta.programs.experiments import curves, statistics
from boonta.programs.experiments.curves import X
from boonta.programs.experiments.groups import Group, Suite
from boonta.programs.experiments.statistics import Estimate
from boonta.programs.wiring.run import BadInput

THRESHOLDS = 201  # Points of a performance profile.
MARGIN = 0.05  # Share of the range of scores that a profile shows beyond the lowest and the highest one.
CURVE_RESAMPLES = 1_000


class Reference(NamedTuple):
    """The returns of an environment that become the scores 0 and 1.

    Attributes:
      low, high: these returns.
    """

    low: float
    high: float

    def score(self, returns: np.ndarray) -> np.ndarray:
        """The scores of returns."""
        return (returns - self.low) / (self.high - self.low)


class Band(NamedTuple):
    """A curve of a group with its interval.

    Attributes:
      x: env steps, seconds or a threshold, [G].
      y: the interquartile mean, or share, at each, [G].
    """

    x: np.ndarray
    y: Estimate


class Improvement(NamedTuple):
    """The probability that a run of one group scores higher than a run of another.

    Attributes:
      one, other: the groups' names.
      probability: the probability.
    """

    one: str
    other: str
    probability: Estimate


def references(suite: Suite, given: Sequence[str]) -> dict[str, Reference]:
    """The reference returns of each environment: those given, or the least and greatest final score of any run.

    Args:
      suite: the groups by environment.
      given: texts of the form ENVIRONMENT=LOW,HIGH; none or one for each environment.

    Raises:
      BadInput: a text has another form, names another environment, or one is missing.
    """
    if not given:
        return {env: _least_and_greatest(groups) for env, groups in suite.items()}
    found = {}
    for text in given:
        env, _, numbers = text.partition("=")
        env = env.replace("/", "-")
        if env not in suite:
            raise BadInput(f"--reference {text!r} is of none of the environments: {', '.join(suite)}")
        try:
            low, high = map(float, numbers.split(","))
        except ValueError:
            raise BadInput(f"--reference {text!r} is not ENVIRONMENT=LOW,HIGH") from None
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise BadInput(f"--reference {text!r} must have finite numbers, the lower one first")
        found[env] = Reference(low, high)
    missing = [env for env in suite if env not in found]
    if missing:
        raise BadInput(f"--reference is given for {', '.join(found)}, and missing for {', '.join(missing)}")
    return found


def _least_and_greatest(groups: Sequence[Group]) -> Reference:
    returns = np.concatenate([scores(group) for group in groups])
    low, high = float(returns.min()), float(returns.max())
    return Reference(low, high if high > low else low + 1.0)


def scores(group: Group) -> np.ndarray:
    """The final scores of a group's runs, [R]."""
    return np.array([result.score.value for result in group.results])


def final(group: Group) -> Estimate:
    """The interquartile mean of a group's final scores in its environment."""
    return statistics.estimate([scores(group)])


def names_of(suite: Suite) -> list[str]:
    """The names of the groups, in order; the same ones in each environment."""
    return [group.name for group in next(iter(suite.values()))]


def normalised(suite: Suite, reference: Mapping[str, Reference]) -> dict[str, list[np.ndarray]]:
    """By group, the normalised final scores of its runs in each environment, [R] each."""
    return {
        name: [reference[env].score(scores(groups[i])) for env, groups in suite.items()]
        for i, name in enumerate(names_of(suite))
    }


def band(group: Group, x: X) -> Band:
    """The learning curve of a group in its environment."""
    points = curves.grid([result.curve for result in group.results], x)
    return _band([_values(group, x, points)], points)


def suite_bands(suite: Suite, reference: Mapping[str, Reference], x: X) -> dict[str, Band]:
    """By group, its learning curve over all environments, of normalised scores."""
    bands = {}
    for i, name in enumerate(names_of(suite)):
        groups = {env: each[i] for env, each in suite.items()}
        points = curves.grid([result.curve for group in groups.values() for result in group.results], x)
        bands[name] = _band([reference[env].score(_values(each, x, points)) for env, each in groups.items()], points)
    return bands


def profiles(by_group: Mapping[str, Sequence[np.ndarray]]) -> dict[str, Band]:
    """By group, its performance profile over all environments.

    Args:
      by_group: by group, the scores of its runs in each environment, [R] each.
    """
    every = np.concatenate([task for tasks in by_group.values() for task in tasks])
    beyond = MARGIN * (every.max() - every.min() or 1.0)
    thresholds = np.linspace(every.min() - beyond, every.max() + beyond, THRESHOLDS)
    return {name: Band(thresholds, statistics.profile(tasks, thresholds)) for name, tasks in by_group.items()}


def improvements(by_group: Mapping[str, Sequence[np.ndarray]]) -> list[Improvement]:
    """For each pair of groups, the better one first.

    Args:
      by_group: from `normalised`.
    """
    means = {name: float(statistics.interquartile_mean(np.concatenate(each))) for name, each in by_group.items()}
    ranked = sorted(by_group, key=lambda name: -means[name])
    return [
        Improvement(one, other, statistics.probability_of_improvement(by_group[one], by_group[other]))
        for one, other in itertools.combinations(ranked, 2)
    ]


def _values(group: Group, x: X, points: np.ndarray) -> np.ndarray:
    """The values of a group's runs at these points, [G, R]."""
    return np.stack([curves.at(result.curve, x, points) for result in group.results], axis=1)


def _band(tasks: Sequence[np.ndarray], points: np.ndarray) -> Band:
    """The interquartile mean of values [G, R] of each task."""
    if not len(points):
        return Band(points, Estimate(points, points, points))
    return Band(points, statistics.estimate(tasks, resamples=CURVE_RESAMPLES))
