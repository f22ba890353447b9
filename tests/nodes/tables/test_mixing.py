"""Batches from several tables, of scripted streams: shares, patience, what is kept between two calls."""

from __future__ import annotations

import dataclasses
import time

import jax
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding

from boonta.agents.base import Batch, Steps, Table
from boonta.nodes.tables.base import Piece
from boonta.nodes.tables.mixing import MixedDataset

FRESH = Table("fresh", "replay", 2, 1, batch_size=8, size=100, sampler="uniform", share=0.25)
AGAIN = dataclasses.replace(FRESH, name="again", writer="reanalyzer", share=0.75)


class Scripted:
    """A stream that has so many sequences, whose rewards count from `first`."""

    def __init__(self, first: float, has: int):
        self.first, self.has, self.given = first, has, 0
        self.asked: list[int] = []
        self.errors: dict[int, float] = {}

    def ask(self, sequences):
        self.asked.append(sequences)

    def take(self, most, timeout_s):
        number = min(most, self.has, 3)  # No piece is larger.
        if not number:
            time.sleep(min(timeout_s, 0.01))
            return None
        keys = np.arange(self.given, self.given + number).astype(np.uint64)
        self.has, self.given = self.has - number, self.given + number
        reward = np.stack([self.first + keys, self.first + keys]).astype(np.float32)  # [T, S]
        probability = np.full(number, 1 + self.first, np.float32)
        return Piece(Steps(reward, reward, reward, reward, reward, (), reward), probability, keys, stale=1)

    def ready(self, sequences):
        return self.has >= sequences

    def prioritise(self, keys, errors):
        self.errors |= dict(zip(keys.tolist(), errors.tolist(), strict=True))

    def close(self):
        """Nothing is open."""


def mixed(fresh: Scripted, again: Scripted, patience_s: float = 60.0) -> MixedDataset:
    place = SingleDeviceSharding(jax.devices()[0])
    return MixedDataset((FRESH, AGAIN), (fresh, again), Batch(place, place), patience_s, patience_s)


def test_each_table_gives_its_share_and_gets_its_own_errors_back():
    fresh, again = Scripted(0, 8), Scripted(100, 8)
    dataset = mixed(fresh, again)
    assert dataset.ready()
    batch, drawn = dataset.next(0.0)
    rewards = [0, 1, 100, 101, 102, 103, 104, 105]
    np.testing.assert_array_equal(batch.steps.reward, [rewards, rewards])
    np.testing.assert_array_equal(drawn.table, [0] * 2 + [1] * 6)
    np.testing.assert_array_equal(drawn.version, rewards)
    np.testing.assert_array_equal(batch.probability, [1] * 2 + [101] * 6)
    assert drawn.stale == 3  # One before each piece, of which the second table gave two.
    dataset.prioritise(drawn, np.arange(8.0))
    assert fresh.errors == {0: 0.0, 1: 1.0} and again.errors == {i: i + 2.0 for i in range(6)}


def test_what_has_come_waits_for_the_rest_whichever_table_lacks_it():
    fresh, again = Scripted(0, 1), Scripted(100, 4)
    dataset = mixed(fresh, again)
    assert dataset.next(0.0) is None and dataset.waits_for == "fresh" and not dataset.ready()
    fresh.has = 1
    assert dataset.next(0.0) is None and dataset.waits_for == "again" and not dataset.ready()
    assert (fresh.given, again.given) == (2, 4)
    again.has = 2
    assert dataset.ready()
    batch, drawn = dataset.next(0.0)
    assert batch.steps.reward[0].tolist() == [0, 1, 100, 101, 102, 103, 104, 105]
    assert not dataset.ready()  # The next one lacks everything.


def test_the_first_table_gives_what_another_can_not_until_that_has_a_whole_share():
    fresh, again = Scripted(0, 100), Scripted(100, 2)
    dataset = mixed(fresh, again, patience_s=0.02)
    while (found := dataset.next(0.0)) is None:
        pass
    assert found[1].table.tolist() == [0] * 2 + [1] * 2 + [0] * 4
    assert fresh.asked == [2, 4]  # What it is asked for beside its share, it is told.
    again.has, dataset._patience_s = 4, 60.0
    assert np.sum(dataset.next(0.0)[1].table) == 4  # It isn't waited for.
    again.has = 7
    assert np.sum(dataset.next(0.0)[1].table) == 6
    assert dataset.next(0.0) is None and dataset.waits_for == "again"  # Now it is, again.


def test_a_table_that_has_given_nothing_yet_is_waited_for_longer():
    place = SingleDeviceSharding(jax.devices()[0])
    streams = Scripted(0, 100), Scripted(100, 0)
    dataset = MixedDataset((FRESH, AGAIN), streams, Batch(place, place), patience_s=0.0, start_patience_s=60.0)
    assert dataset.next(0.0) is None and dataset.waits_for == "again"
    streams[1].has = 6
    assert dataset.next(0.0)[1].table.tolist() == [0] * 2 + [1] * 6
    assert dataset.next(0.0)[1].table.tolist() == [0] * 8


@pytest.mark.parametrize("batch_size", [3, 8])
def test_one_table_alone_gives_all(batch_size):
    table = dataclasses.replace(FRESH, batch_size=batch_size, share=1.0)
    place = SingleDeviceSharding(jax.devices()[0])
    dataset = MixedDataset((table,), (Scripted(0, 9),), Batch(place, place))
    batch, drawn = dataset.next(0.0)
    assert batch.steps.reward[1].tolist() == list(range(batch_size)) and not drawn.table.any()
