"""The returns and metrics of a fused program's episodes, over the last of them and over the first."""

from __future__ import annotations

import math

import jax

from boonta.nodes.fused import stage
from boonta.nodes.watch.means import EPISODE

RETURNS = 100  # A mean return is taken over at least this many episodes, or over all while fewer have ended.


class Recent:
    """Sums over the episodes of the last dispatches: of the fewest that have `RETURNS` episodes, or else of all.

    Args:
      fresh: whether the program began with fresh params; only then the first episodes count for `start`.

    Attributes:
      start: the mean return of the first episodes, as a metric; empty where it isn't known.
    """

    def __init__(self, fresh: bool):
        self.start: dict[str, float] = {}
        self._sums: list[stage.Episodes] = []
        self._fresh = fresh

    def add(self, episodes: stage.Episodes) -> dict[str, float]:
        """Adds sums, as floats; returns the metrics of the last episodes."""
        if not episodes.number:
            return {}
        self._sums.append(episodes)
        while sum(sums.number for sums in self._sums[1:]) >= RETURNS:
            del self._sums[0]
        total = jax.tree.map(lambda *sums: sum(sums), *self._sums)
        number, mean = total.number, total.returns / total.number
        metrics = {"return": mean, "episode_steps": total.steps / number, "return_episodes": number}
        metrics |= {EPISODE + name: values / number for name, values in total.metrics.items()}
        if number > 1:
            variance = max(0.0, total.squares / number - mean**2) * number / (number - 1)
            metrics["return_se"] = math.sqrt(variance / number)
        if self._fresh and not self.start and number >= RETURNS:
            self.start = {"return_start": mean}
        return metrics | self.start
