"""Statistics against numbers made by hand, and against second implementations."""

from __future__ import annotations

import random
import statistics as standard

import numpy as np
import pytest
from scipy import stats

from boonta.programs.experiments import statistics
from boonta.programs.experiments.statistics import Estimate

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([3.0], 3.0),
        ([1.0, 2.0, 9.0], 4.0),  # With fewer than four nothing is left out.
        ([9.0, 1.0, 2.0, 4.0], 3.0),
        ([100.0, 1.0, 2.0, 3.0, -100.0], 2.0),
        ([-5.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 90.0], 2.5),
    ],
)
def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end(values, mean):
    assert statistics.interquartile_mean(np.array(values)) == pytest.approx(mean)


def resampled(tasks: list[list[float]], level: float = 0.95, resamples: int = 20_000) -> tuple[float, float]:
    """A stratified percentile bootstrap of the interquartile mean, in plain Python."""
    drawing, found = random.Random(1), []
    for _ in range(resamples):
        drawn = sorted(value for task in tasks for value in drawing.choices(task, k=len(task)))
        cut = len(drawn) // 4
        found.append(standard.fmean(drawn[cut : len(drawn) - cut]))
    found.sort()
    tail = (1 - level) / 2
    return found[int(tail * resamples)], found[int((1 - tail) * resamples)]


def test_intervals_are_those_of_a_second_implementation():
    generator = np.random.default_rng(3)
    tasks = [generator.normal(task, 1 + task, 6) for task in range(3)]
    found = statistics.estimate(tasks)
    low, high = resampled([task.tolist() for task in tasks])
    assert found.value == pytest.approx(stats.trim_mean(np.concatenate(tasks), 0.25))
    assert found.low == pytest.approx(low, abs=0.05) and found.high == pytest.approx(high, abs=0.05)
    again = statistics.estimate(tasks)
    assert (again.low, again.high) == (found.low, found.high)


def test_the_bootstrap_is_stratified():
    """Runs of a task that all agree add no uncertainty, however far the tasks are apart."""
    found = statistics.estimate([np.zeros(5), np.full(5, 100.0)], np.mean)
    assert found == Estimate(50.0, 50.0, 50.0)


def test_a_single_run_has_no_interval():
    found = statistics.estimate([np.array([1.0, 2.0]), np.array([3.0])])
    assert found.value == 2.0 and np.isnan(found.low) and np.isnan(found.high)


def test_curves_have_an_interval_at_each_point():
    values = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
    found = statistics.estimate([values])
    np.testing.assert_allclose(found.value, [0.0, 2.0])
    np.testing.assert_allclose(found.low, [0.0, 1.0])
    np.testing.assert_allclose(found.high, [0.0, 3.0])


def test_the_profile_is_the_share_of_runs_above():
    found = statistics.profile([np.array([0.0, 1.0]), np.array([2.0, 3.0])], np.array([-1.0, 0.0, 1.5, 3.0]))
    np.testing.assert_allclose(found.value, [1.0, 0.75, 0.5, 0.0])
    np.testing.assert_allclose(found.low[[0, 2, 3]], [1.0, 0.5, 0.0])
    np.testing.assert_allclose([found.low[1], found.high[1]], [0.5, 1.0])  # One of the first task is at most 0.


def test_the_probability_of_improvement_is_that_of_mann_and_whitney():
    generator = np.random.default_rng(4)
    ones, others = ([generator.integers(0, 9, n).astype(float) for n in (6, 4)] for _ in range(2))
    shares = [stats.mannwhitneyu(a, b).statistic / (len(a) * len(b)) for a, b in zip(ones, others)]
    found = statistics.probability_of_improvement(ones, others)
    assert found.value == pytest.approx(np.mean(shares)) and 0 <= found.low <= found.value <= found.high <= 1


def test_ties_count_half():
    found = statistics.probability_of_improvement([np.array([1.0, 2.0])], [np.array([1.0, 1.0])])
    assert found.value == 0.75
