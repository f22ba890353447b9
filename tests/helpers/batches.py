"""Batches of random steps, and a store that gives a learner nothing else."""

from __future__ import annotations

import jax
import numpy as np

from boonta.agents.base import Batch, Steps
from boonta.nodes.tables.base import Drawn


def batch(seed: int, size: int = 8, length: int = 5) -> Batch:
    rng = np.random.default_rng(seed)
    integer = lambda high: rng.integers(0, high, (length, size)).astype(np.int32)  # noqa: E731
    real = rng.normal(size=(length, size)).astype(np.float32)
    observation = rng.normal(size=(length, size, 10, 5)).astype(np.float32)
    return Batch(
        Steps(observation, integer(3), real, np.ones_like(real), integer(3), {}, np.zeros_like(integer(2))),
        np.ones(size, np.float32),
    )


class Batches:
    """A dataset of them; the keys of batch i are 100 i, 100 i + 1, …"""

    waits_for = "trajectories"
    there = 20  # Batches that are ready.

    def __init__(self, tables, sharding, wait_for, updates=0):
        self._size = tables[0].batch_size
        self._sharding = sharding
        self._seeds = iter(range(20))
        self.prioritised = []

    def next(self, timeout_s: float):
        seed = next(self._seeds)
        self.there -= 1
        keys, zeros = 100 * seed + np.arange(self._size), np.zeros(self._size, np.int32)
        return jax.device_put(batch(seed, self._size), self._sharding), Drawn(keys, zeros, zeros.astype(np.float32))

    def ready(self) -> bool:
        return self.there > 0

    def prioritise(self, drawn, errors):
        self.prioritised.append((drawn.keys, errors))

    def close(self):
        """Nothing is open."""


class BatchStore:
    """Stands in for a learner's store."""

    def __init__(self, dataset=Batches):
        self.open_dataset = dataset
