"""Weights by place, from which places are drawn in proportion."""

from __future__ import annotations

import numpy as np

WIDTH = 32  # Weights in a row. For a million places wider rows took longer to draw from, narrower ones to change.


class Weights:
    """Weights of a fixed number of places, all 0 at first.

    They lie in rows, whose sums lie in rows in turn, up to a single row. Drawing goes down from there; a change sums
    the rows above it anew, so that no error of rounding gathers. Both cost in the order of the logarithm of the size.

    Args:
      size: number of places.
    """

    def __init__(self, size: int):
        self._levels: list[np.ndarray] = []  # [rows, WIDTH] each; the first has the weights, the last a single row.
        length = size
        while not self._levels or len(self._levels[-1]) > 1:
            length = -(-length // WIDTH)
            self._levels.append(np.zeros((length, WIDTH)))
        self.values = self._levels[0].reshape(-1)[:size]  # A view, to be read.

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self._levels[-1].sum())

    def set(self, places: np.ndarray, weights: np.ndarray) -> None:
        """Changes the weights of some places; of a place that occurs twice, the later one counts."""
        self.values[places] = weights
        for below, above in zip(self._levels, self._levels[1:]):
            places = np.unique(places // WIDTH)
            above.reshape(-1)[places] = below[places].sum(axis=1)

    def draw(self, rng: np.random.Generator, number: int) -> np.ndarray:
        """Places, drawn one by one in proportion to their weights, of which one at least is above 0."""
        each, places = np.arange(number), np.zeros(number, np.int64)
        points = rng.random(number) * self.total
        for level in reversed(self._levels):
            ends = np.cumsum(level[places], axis=1)  # [number, WIDTH]
            points = np.minimum(points, np.nextafter(ends[:, -1], 0.0))  # Rounding may have let one reach the end.
            columns = np.argmax(ends > points[:, None], axis=1)
            # By the same sums as above, so that no point comes out below 0, where a weight of 0 would be found.
            points = points - np.where(columns > 0, ends[each, columns - 1], 0.0)
            places = places * WIDTH + columns
        return places
