"""Histograms among metrics: their shares by hand, in numpy and JAX, and as values of a row."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.metrics import ENDS, expanded, histogram
from boonta.nodes.learning.step import priority_metrics

VALUES = np.array([[0.0, 0.0005, 0.5], [1.0, 1.03, 1.04], [29.0, 30.5, 1e9]], np.float32)


def by_hand(values, mask=None) -> np.ndarray:
    counts = np.zeros(len(ENDS))
    for value, counted in zip(values.flat, np.ones(values.size) if mask is None else mask.flat):
        counts[next(i for i, end in enumerate(ENDS) if value <= np.float32(end))] += counted
    return counts / counts.sum()


@pytest.mark.parametrize("of", [lambda x, m: histogram(x, m), jax.jit(histogram)], ids=["numpy", "jax"])
@pytest.mark.parametrize("mask", [None, (VALUES > 0.1).astype(np.float32)], ids=["all", "masked"])
def test_shares_are_those_counted_by_hand(of, mask):
    np.testing.assert_allclose(of(VALUES, mask), by_hand(VALUES, mask), atol=1e-6)


def test_nothing_counted_is_no_share():
    np.testing.assert_array_equal(histogram(jnp.ones(4), jnp.zeros(4)), np.zeros(len(ENDS)))


def test_each_bin_becomes_a_value():
    metrics = expanded(
        {"loss": np.array([1.0, 2.0]), "histogram/rho": np.array([histogram(VALUES), histogram(VALUES)])}
    )
    assert metrics["loss"].tolist() == [1.0, 2.0] and len(metrics) == 1 + len(ENDS)
    assert metrics["histogram/rho/30"].tolist() == pytest.approx([1 / 9] * 2)
    assert metrics["histogram/rho/inf"].tolist() == pytest.approx([2 / 9] * 2)


def test_priorities_are_a_histogram_too():
    shares = priority_metrics(np.array([0.2, 0.2, 5.0, 40.0], np.float32))["histogram/priority"]
    assert [shares[ENDS.index(end)] for end in (0.3, 10.0, np.inf)] == pytest.approx([0.5, 0.25, 0.25])
