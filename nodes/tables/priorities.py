"""Priorities: what a table's sampler makes of errors, those that fresh sequences have and those of an update."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np

from boonta.agents.base import Steps, Table
from boonta.nodes.tables.contract import NEW_PRIORITY, PRIORITY_FLOOR

BINS = 1 << 15

# `(keys [B], errors [B]) -> priorities [B]`; errors below 0 or not finite are a ValueError. Reverb draws with
# probability priority^alpha / sum of priorities^alpha.
Priorities = Callable[[np.ndarray, np.ndarray], np.ndarray]


def make_priorities(table: Table) -> Priorities | None:
    """The rule of the table's sampler; None if it draws without looking at priorities."""
    if not table.is_prioritised:
        return None
    ranks = Ranks(table.size) if table.sampler == "rank" else None

    def priorities(keys: np.ndarray, errors: np.ndarray) -> np.ndarray:
        require_errors(table, errors)
        return errors + PRIORITY_FLOOR if ranks is None else ranks(keys, errors)

    return priorities


def knows_errors(table: Table) -> bool:
    """Whether fresh sequences come with errors of their own. With "rank" they don't: only the learner knows ranks."""
    return table.errors is not None and table.sampler == "proportional"


def fresh_errors(table: Table, steps: Steps) -> Any:
    """The errors [B] of fresh sequences, leaves [T, B, ...].

    Raises:
      ValueError: none can be made of sequences of this length, or there isn't one for each of them.
    """
    assert table.errors is not None
    rows, *slots = steps.reward.shape
    try:
        errors = table.errors(light(steps))
    except (IndexError, ValueError) as error:
        raise ValueError(
            f"table {table.name!r}: no errors can be made of its sequences of {rows} steps: {error}"
        ) from error
    if list(np.shape(errors)) != slots:
        raise ValueError(
            f"table {table.name!r}: its errors of fresh sequences have the shape {list(np.shape(errors))}; it must be "
            f"{slots}, one for each"
        )
    return errors


def fresh_priorities(table: Table, steps: Steps, slots: int) -> np.ndarray:
    """The priorities [B] of fresh sequences, leaves [T, B, ...] on the host.

    Raises:
      ValueError: an error is below 0 or not finite, or see `fresh_errors`.
    """
    if not knows_errors(table):
        return np.full(slots, NEW_PRIORITY)
    return require_errors(table, np.asarray(fresh_errors(table, steps))) + PRIORITY_FLOOR


def require_errors(table: Table, errors: np.ndarray) -> np.ndarray:
    """Refuses errors from which no priorities can be made.

    Raises:
      ValueError: one is below 0 or not finite.
    """
    wrong = ~(np.isfinite(errors) & (errors >= 0))
    if wrong.any():
        raise ValueError(
            f"priorities for table {table.name!r} must be finite and at least 0; {wrong.sum()} of {wrong.size} aren't, "
            f"the first is {errors[wrong][0]}"
        )
    return errors


def light(steps: Steps) -> Steps:
    """Steps without observations and cores: these leaves are the large ones, and `Table.errors` never reads them."""
    return steps._replace(observation=(), core=())


class Ranks:
    """Turns errors into 1 / rank, rank 1 being the largest error that is known.

    See "Prioritized Experience Replay" (https://arxiv.org/abs/1511.05952), section 3.3. Reverb cannot draw by rank, so
    the learner remembers the last error of the sequences it has drawn, finds the ranks of the new ones among them, and
    Reverb draws with the exponent alpha from 1 / rank. Errors are counted in bins under 1% wide, so that a rank is the
    count of the bins above: constant time, where a sorted list would cost more the more sequences there are.

    What is inexact, as the paper's heap is, which it sorts only now and then:
      - Ranks go stale: a sequence keeps its rank until it is drawn again. One that is ranked too high is drawn, and so
        put right, soon; one that is ranked too low late.
      - Errors within a bin share their middle rank.
      - Sequences that the table has dropped are counted until `size` later ones have been drawn. Those never drawn are
        not counted; they lie in the table with the priority they came with, 1: on top, as the paper wants it.
      - After a restart the ranks are those among the sequences drawn since.

    It takes 180 bytes for each sequence and 0.5 ms for a batch of 256, with 100,000 or a million of them known.

    Args:
      size: most sequences in the table, and most remembered.
    """

    def __init__(self, size: int):
        self._size = size
        self._bins: collections.OrderedDict[int, int] = collections.OrderedDict()  # By key, those drawn first first.
        self._counts = np.zeros(BINS, np.int64)

    def __call__(self, keys: np.ndarray, errors: np.ndarray) -> np.ndarray:
        # The upper half of a float32 from 0 on, exponent and 7 bits, is an integer that orders as the float does.
        bins = np.abs(errors).astype(np.float32).view(np.uint32) >> 16
        for key, new in zip(keys.tolist(), bins.tolist(), strict=True):
            old = self._bins.get(key)
            if old is not None:
                self._counts[old] -= 1
            self._bins[key] = new
            self._counts[new] += 1
        while len(self._bins) > self._size:
            _, old = self._bins.popitem(last=False)
            self._counts[old] -= 1
        last = np.cumsum(self._counts[::-1])[::-1]  # The lowest rank in each bin.
        return 1.0 / (last - (self._counts - 1) / 2)[bins]
