"""For every rule of the table's contract there is a store that breaks it, and is found."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable

import numpy as np
import pytest

from boonta.agents.base import Table
from boonta.nodes.tables import contract
from boonta.tests.helpers import store_conformance, store_judge
from boonta.tests.helpers.store_judge import SLOTS, ConformanceError, Opened
from boonta.tests.helpers.stores import Broken

pytestmark = pytest.mark.once


class LateCut(Broken):
    """Leaves the first row out."""

    rows = 0

    def append(self, steps):
        self.rows += 1
        return self.writer.append(steps) if self.rows > 1 else 0


class OtherPeriod(Broken):
    """Cuts at another period, and says that it doesn't."""

    def __init__(self, table):
        super().__init__(dataclasses.replace(table, period=1))
        self.counted_as, self.rows = table, 0

    def append(self, steps):
        self.rows += 1
        self.writer.append(steps)
        return SLOTS * contract.completes(self.counted_as, self.rows)


class Mixed(Broken):
    """Gives observations of another slot."""

    def change(self, batch):
        view = batch.steps.observation.view
        return batch._replace(
            steps=batch.steps._replace(observation=batch.steps.observation._replace(view=view[:, ::-1]))
        )


class OtherClasses(Broken):
    """Gives plain tuples where the agent has classes of its own."""

    def change(self, batch):
        return batch._replace(steps=batch.steps._replace(observation=tuple(batch.steps.observation)))


class OtherCore(Broken):
    """Gives the core of the row before."""

    def open_writer(self, tables, *arguments):
        self.core = None
        return super().open_writer(tables, *arguments)

    def append(self, steps):
        before, self.core = self.core or steps.core, steps.core
        return self.writer.append(steps._replace(core=before))


class OtherVersion(Broken):
    def next(self, timeout_s):
        batch, drawn = self.dataset.next(timeout_s)
        return batch, drawn._replace(version=batch.steps.version[0].astype(np.float32))


class NoQueue(Broken):
    """Gives every batch twice."""

    again = None

    def next(self, timeout_s):
        found, self.again = (self.again, None) if self.again else (self.dataset.next(timeout_s),) * 2
        return found

    def ready(self):
        return bool(self.again) or self.dataset.ready()


class Boundless(Broken):
    """Makes no writer wait."""

    def __init__(self, table):
        super().__init__(table)
        self.kept._limit = self.kept._limit._replace(highest=float("inf"))


class Tight(Broken):
    """Makes writers wait before they are ahead."""

    def __init__(self, table):
        super().__init__(table)
        self.kept._limit = self.kept._limit._replace(highest=table.batch_size)


class Greedy(Broken):
    """Gives samples that nobody owes, within bounds."""

    def __init__(self, table):
        super().__init__(table)
        self.kept._limit = self.kept._limit._replace(lowest=-9.0 * table.batch_size)


class Eager(Broken):
    """Serves before there are enough sequences."""

    def __init__(self, table):
        super().__init__(dataclasses.replace(table, min_size=1))


class NotFree(Broken):
    """Takes None for once."""

    def __init__(self, table):
        super().__init__(dataclasses.replace(table, samples_per_insert=1.0))


class Never(Broken):
    """Says that no batch is due."""

    def ready(self):
        return False


class TooLarge(Broken):
    """Drops nothing."""

    def __init__(self, table):
        super().__init__(dataclasses.replace(table, size=100))


class Empty(Broken):
    """Gives no batch, though it says that one is due."""

    def next(self, timeout_s):
        return None


class Trusting(Broken):
    """Takes fresh errors of any kind."""

    def __init__(self, table):
        errors = table.errors
        super().__init__(dataclasses.replace(table, errors=lambda steps: np.nan_to_num(np.abs(errors(steps)))))


def reweigh(kept, change):
    """Changes the weights of a table."""
    weights = kept._weights.values.copy()
    change(weights)
    kept._weights.set(np.arange(len(weights)), weights)


class Weights(Broken):
    """Gives what it holds other weights before each draw."""

    def next(self, timeout_s):
        reweigh(self.kept, lambda weights: self.reweigh(weights, self.kept._keys))
        return self.dataset.next(timeout_s)

    def reweigh(self, weights, keys):
        raise NotImplementedError


class Deaf(Broken):
    """Counts what was never drawn as an error of 1, whatever the agent says."""

    def __init__(self, table):
        super().__init__(dataclasses.replace(table, errors=None))


class NewIsLargest(Weights):
    """Counts what was never drawn as the largest error so far, as flashbax does."""

    def reweigh(self, weights, keys):
        weights[weights == contract.NEW_PRIORITY] = weights.max()


class NoFloor(Weights):
    """Never draws an error of 0 again."""

    def reweigh(self, weights, keys):
        weights[np.isclose(weights, contract.PRIORITY_FLOOR**0.5)] = 0.0


class PlainProbability(Broken):
    """Gives p instead of N p."""

    def change(self, batch):
        return batch._replace(probability=batch.probability / len(np.unique(batch.steps.reward[0])))


class Lying(Broken):
    """Draws uniformly, and says that it doesn't."""

    def __init__(self, table):
        super().__init__(table)
        self.kept._choose = lambda number: self.choose(number)

    def choose(self, number):
        weights, keys = self.kept._weights.values, self.kept._keys
        places = np.random.default_rng(0).choice(np.flatnonzero(keys >= 0), number)
        return places, (np.sum(keys >= 0) * weights[places] / weights.sum()).astype(np.float32)


class Careless(Broken):
    """Takes errors of any kind."""

    def prioritise(self, drawn, errors):
        self.dataset.prioritise(drawn, np.nan_to_num(np.abs(errors)))


class Confused(Broken):
    """Gives errors of dropped sequences to those in their places."""

    def prioritise(self, drawn, errors):
        keys = self.kept._keys[drawn.keys.astype(int) % self.kept._size]
        self.dataset.prioritise(drawn._replace(keys=keys.astype(np.uint64)), errors)


class Forgetful(Broken):
    """Begins anew with the priorities lost."""

    def restart(self):
        reweigh(self.kept, lambda weights: np.copyto(weights, weights > 0))
        return self


cut = functools.partial(store_conformance.check_sequences, kind="replay")
queue_cut = functools.partial(store_conformance.check_sequences, kind="queue")
ratio = functools.partial(store_conformance.check_ratio, in_rounds=False)
uniform = functools.partial(store_conformance.check_priorities, sampler="uniform", in_rounds=False)
proportional = functools.partial(store_conformance.check_priorities, sampler="proportional", in_rounds=False)
fresh = functools.partial(store_conformance.check_fresh, in_rounds=False)

CASES = [
    (LateCut, cut, "append() gives the number of sequences completed"),
    (LateCut, queue_cut, "append() gives the number of sequences completed"),
    (OtherPeriod, cut, "sequences start every `period` rows"),
    (OtherPeriod, queue_cut, "a queue gives each sequence once, in order"),
    (Mixed, cut, "a sequence is what was written"),
    (OtherClasses, cut, "sequences come back in the agent's own classes"),
    (OtherCore, cut, "a sequence is what was written"),
    (OtherCore, queue_cut, "a sequence is what was written"),
    (OtherVersion, cut, "`version` is a mean over a sequence's steps"),
    (NoQueue, queue_cut, "a queue gives each sequence once, in order"),
    (NoQueue, store_conformance.check_queue, "a queue gives each sequence once, in order"),
    (Boundless, store_conformance.check_queue, "a queue holds `size` sequences"),
    (Tight, store_conformance.check_queue, "a writer goes on while it is not ahead"),
    (Boundless, ratio, "a writer that is ahead waits"),
    (Tight, ratio, "a writer goes on while it is not ahead"),
    (Greedy, ratio, "what is owed is drawn, and at most a batch more"),
    (Eager, ratio, "nothing is drawn before there are `min_size` sequences"),
    (Eager, store_conformance.check_free, "nothing is drawn before there are `min_size` sequences"),
    (NotFree, store_conformance.check_free, "a writer goes on while it is not ahead"),
    (Never, cut, "ready() says that a batch is due"),
    (Empty, cut, "a batch that is due is given"),
    (TooLarge, store_conformance.check_oldest_dropped, "a full table drops its oldest sequence"),
    (TooLarge, fresh, "what was dropped is not drawn"),
    (NewIsLargest, proportional, "`probability` is N p"),
    (NoFloor, proportional, "`probability` is N p"),
    (PlainProbability, uniform, "new sequences are alike; `probability` is N p"),
    (Lying, proportional, "sequences are drawn as often as `probability` says"),
    (Careless, proportional, "errors below 0 or not finite are refused"),
    (Confused, proportional, "`probability` is N p"),
    (Deaf, fresh, "`probability` is N p"),
    (Trusting, fresh, "fresh errors below 0 or not finite are refused"),
    (Forgetful, store_conformance.check_restart, "`probability` is N p"),
]


@pytest.mark.parametrize(("store", "check", "rule"), CASES, ids=lambda case: getattr(case, "__name__", None))
def test_a_store_that_breaks_a_rule_is_found(store: type[Broken], check: Callable, rule: str, monkeypatch):
    # A writer that must go on is waited for until the deadline, by which any other has gone on.
    monkeypatch.setattr(store_judge, "DEADLINE_S", 2.0 if rule.startswith("a writer goes on") else 60.0)

    def make(table: Table) -> Opened:
        broken = store(table)
        return Opened(broken, restart=getattr(broken, "restart", None))

    with pytest.raises(ConformanceError, match=re.escape(rule)):
        check(make)
