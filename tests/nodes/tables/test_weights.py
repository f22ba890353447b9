"""Weights by place: drawn in proportion, changed in place."""

from __future__ import annotations

import numpy as np
import pytest

from boonta.nodes.tables.weights import Weights


@pytest.mark.parametrize("size", [1, 2, 7, 10, 32, 101, 1025])
def test_places_are_drawn_in_proportion(size):
    rng = np.random.default_rng(0)
    weights = Weights(size)
    wanted = np.where(np.arange(size) % 3 == 1, 0.0, rng.random(size))
    weights.set(np.arange(size), np.ones(size))
    weights.set(np.arange(size)[::-1], wanted[::-1])
    np.testing.assert_array_equal(weights.values, wanted)
    assert weights.total == pytest.approx(wanted.sum())
    counts = np.bincount(weights.draw(rng, 50_000), minlength=size)
    assert len(counts) == size and not np.any(counts[wanted == 0])
    np.testing.assert_allclose(counts / 50_000, wanted / wanted.sum(), atol=0.01)


def test_of_a_place_twice_the_later_weight_counts():
    weights = Weights(4)
    weights.set(np.array([2, 0, 2]), np.array([1.0, 1.0, 3.0]))
    assert weights.values.tolist() == [1, 0, 3, 0] and weights.total == 4


@pytest.mark.parametrize("size", [9, 5_000])
def test_rounding_draws_nothing_of_weight_0(size):
    """Points at the very end of the sum lie within the last place that counts."""

    class Highest:
        def random(self, number):
            return np.full(number, np.nextafter(1.0, 0.0))

    weights = Weights(size)
    weights.set(np.arange(7), np.array([0.1, 0.2, 0.3, 1e-17, 0.7, 0.1, 0.0]))
    assert set(weights.draw(Highest(), 5)) == {5}
