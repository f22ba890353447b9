"""Statistics of few runs: interquartile means, performance profiles, and intervals by a stratified bootstrap.

See "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (https://arxiv.org/abs/2108.13264).

Glossary of shapes: R runs of one task, G points of a grid.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

LEVEL = 0.95  # The share of intervals that contain the true value.
RESAMPLES = 5_000
AT_ONCE = 250  # Resamples in memory at the same time.


class Estimate(NamedTuple):
    """An estimate with its interval, arrays of one shape; the interval is NaN where a task has a single run.

    Attributes:
      value: the estimate.
      low, high: the ends of the interval.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def interquartile_mean(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """The mean of the middle half, as rliable has it: a quarter of the runs, rounded down, is left out at each end.

    It is the mean itself for fewer than four runs.
    """
    return stats.trim_mean(values, 0.25, axis=axis)


def estimate(
    tasks: Sequence[np.ndarray], statistic: Callable[..., Any] = interquartile_mean, resamples: int = RESAMPLES
) -> Estimate:
    """A statistic of all runs of all tasks together, with a bootstrapped interval.

    The bootstrap is stratified: each resample has as many runs of each task as there are, drawn from that task alone.
    The interval is between percentiles, as in the paper. The same runs always give the same interval.

    Args:
      tasks: the values of each task's runs, [..., R]; R may differ from task to task.
      statistic: `(values [..., runs], axis) -> values [...]`.
      resamples: how many resamples are drawn.
    """
    return _bootstrap(tasks, lambda *drawn, axis: statistic(np.concatenate(drawn, axis), axis=axis), resamples)


def profile(tasks: Sequence[np.ndarray], thresholds: np.ndarray) -> Estimate:
    """The performance profile: the share of runs, of all tasks, with a score above each threshold, [G].

    Args:
      tasks: the scores of each task's runs, [R] each.
      thresholds: [G].
    """
    above = [(scores[None, :] > thresholds[:, None]).astype(float) for scores in tasks]  # [G, R]
    return estimate(above, np.mean, resamples=RESAMPLES // 5)


def probability_of_improvement(ones: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> Estimate:
    """The probability that a run of one group scores higher than a run of another, as a mean over tasks.

    Half of the ties count. For one task it is the statistic U of Mann and Whitney, divided by the number of pairs.

    Args:
      ones: by task, the scores of the one group's runs, [R] each.
      others: by task, those of the other group's runs.
    """
    number = len(ones)

    def statistic(*drawn: np.ndarray, axis: int) -> np.ndarray:
        del axis  # It is the last one.
        shares = []
        for one, other in zip(drawn[:number], drawn[number:]):
            one, other = one[..., :, None], other[..., None, :]
            shares.append(np.mean((one > other) + 0.5 * (one == other), axis=(-2, -1)))
        return np.mean(shares, axis=0)

    return _bootstrap([*ones, *others], statistic, RESAMPLES)


def _bootstrap(samples: Sequence[np.ndarray], statistic: Callable[..., np.ndarray], resamples: int) -> Estimate:
    """A statistic of samples [..., R], each of which is resampled along its last axis, with its interval."""
    value = np.asarray(statistic(*samples, axis=-1))
    if min(sample.shape[-1] for sample in samples) < 2:
        return Estimate(value, np.full_like(value, np.nan, float), np.full_like(value, np.nan, float))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)  # Equal runs have an interval, too.
        found = stats.bootstrap(
            samples,
            statistic,
            n_resamples=resamples,
            batch=AT_ONCE,
            vectorized=True,
            axis=-1,
            confidence_level=LEVEL,
            method="percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval
    return Estimate(value, found.low, found.high)
