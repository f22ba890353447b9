"""Weights by place, from which places are drawn in proportion; a table of a million is drawn from in microseconds."""

from __future__ import annotations

import math

import numpy as np


class Weights:
    """Weights of a fixed number of places, all 0 at first.

    They lie in about as many rows as columns, and the rows' sums are kept. Drawing looks for a row, and then in it; a
    change sums its row anew, so that no error of rounding gathers. Both cost in the order of the root of the size.

    Args:
      size: number of places.
    """

    def __init__(self, size: int):
        width = math.isqrt(size - 1) + 1
        self._rows = np.zeros((-(-size // width), width))
        self._sums = np.zeros(len(self._rows))
        self.values = self._rows.reshape(-1)[:size]  # A view, to be read.

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self._sums.sum())

    def set(self, places: np.ndarray, weights: np.ndarray) -> None:
        """Changes the weights of some places; of a place that occurs twice, the later one counts."""
        self.values[places] = weights
        rows = np.unique(places // self._rows.shape[1])
        self._sums[rows] = self._rows[rows].sum(axis=1)

    def draw(self, rng: np.random.Generator, number: int) -> np.ndarray:
        """Places, drawn one by one in proportion to their weights, of which one at least is above 0."""
        ends = np.cumsum(self._sums)
        points = _below(rng.random(number) * ends[-1], ends[-1])
        rows = np.searchsorted(ends, points, side="right")
        within = np.cumsum(self._rows[rows], axis=1)  # [number, width]
        points = _below(points - (ends - self._sums)[rows], within[:, -1])
        columns = np.argmax(within > points[:, None], axis=1)
        return rows * self._rows.shape[1] + columns


def _below(points: np.ndarray, ends: np.ndarray | float) -> np.ndarray:
    """Points, of which rounding has let none reach its end."""
    return np.minimum(points, np.nextafter(ends, 0.0))
