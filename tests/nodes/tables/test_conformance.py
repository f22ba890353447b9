"""Every store here passes, and for every rule there is a way to break it that does not."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from boonta.agents.base import Batch, Steps, Table
from boonta.nodes.fused import fusion
from boonta.nodes.tables import conformance, contract
from boonta.nodes.tables.base import Drawn
from boonta.nodes.tables.device import make_device_table
from boonta.nodes.tables.host import HostTable
from boonta.nodes.tables.judge import SIGNATURE, SLOTS, ConformanceError, Opened
from boonta.nodes.tables.queue import QueueTable


def queue(table: Table) -> Opened:
    return Opened(QueueTable(table))


def host(table: Table) -> Opened:
    return Opened(HostTable(table, groups=1, num_envs=SLOTS))


class DeviceStore:
    """The device's table as a fused program uses it: rounds of inserts, then of updates."""

    def __init__(self, table: Table):
        self.waits_for = table.name
        self._table = table
        self._replay = make_device_table(table, SLOTS)
        self._add, self._sample = jax.jit(self._replay.add), jax.jit(self._replay.sample)
        self._prioritise = jax.jit(self._replay.prioritise)
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), SIGNATURE)
        self._state = jax.jit(self._replay.init)(zeros)
        self._free = table.samples_per_insert is None
        self._round = fusion.ratio(table, SLOTS)
        self._inserts, self._updates = -(-table.min_size // SLOTS), 0  # Those left in this round.
        self._served = False
        self._rows = self._draws = 0
        self._changed = threading.Condition()

    def open_writer(self, tables, num_envs, wait_for, group):
        self._wait_for = wait_for
        return self

    def open_dataset(self, tables, sharding):
        return self

    def append(self, steps: Steps) -> int:
        self._rows += 1
        completes = contract.completes(self._table, self._rows)
        if completes:
            self._wait_for("the updates", self._poll)
        with self._changed:
            self._state = self._add(self._state, jax.tree.map(lambda leaf: leaf[None], steps))
            if completes:
                self._count_insert()
        return SLOTS * completes

    def _poll(self, timeout_s: float) -> bool | None:
        with self._changed:
            return self._changed.wait_for(lambda: self._inserts > 0 or self._free, timeout_s) or None

    def _count_insert(self) -> None:
        self._inserts -= 1
        if self._inserts == 0:
            self._inserts, self._updates = (0, self._round[1]) if self._served else (self._round[0], 0)
            self._served = True

    def ready(self) -> bool:
        return self._served and (self._free or self._updates > 0)

    def next(self, timeout_s: float):
        if not self.ready():
            return None
        with self._changed:
            self._draws += 1
            drawn = self._sample(self._state, jax.random.PRNGKey(self._draws))
            self._updates -= 1
            if self._updates == 0:
                self._inserts = self._round[0]
            self._changed.notify_all()
        self._indices = drawn.indices
        version = contract.mean_version(drawn.steps.version)
        keys = np.zeros(self._table.batch_size, np.uint64)
        return Batch(drawn.steps, drawn.probability), Drawn(keys, keys.astype(np.int32), version)

    def prioritise(self, drawn: Drawn, errors: np.ndarray) -> None:
        self._state = self._prioritise(self._state, self._indices, errors)

    def close(self) -> None:
        """Nothing is open."""


def device(table: Table) -> Opened:
    return Opened(DeviceStore(table))


@pytest.fixture
def reverb(tmp_path):
    """Makes stores on Reverb servers."""
    from boonta.agents import rlax_first  # noqa: F401

    reverb = pytest.importorskip("reverb")
    from boonta.nodes.tables.reverb.client import ReverbStore
    from boonta.nodes.tables.reverb.server import make_table

    def make(table: Table) -> Opened:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        servers = []

        def serve() -> ReverbStore:
            checkpointer = reverb.checkpointers.DefaultCheckpointer(str(folder))
            servers.append(reverb.Server([make_table(table, SIGNATURE)], checkpointer=checkpointer))
            return ReverbStore(servers[-1].localhost_client(), lambda: SIGNATURE)

        def restart() -> ReverbStore:
            servers[-1].localhost_client().checkpoint()
            servers[-1].stop()
            return serve()

        return Opened(serve(), lambda: servers[-1].stop(), restart)

    return make


def test_the_queue_in_this_process_passes():
    conformance.check(queue, "queue")


def test_the_replay_in_this_process_passes():
    conformance.check(host, samplers=("uniform", "proportional", "rank"))


def test_the_replay_on_the_device_passes():
    conformance.check(device, samplers=("uniform", "proportional"), in_rounds=True)


@pytest.mark.cluster
def test_reverbs_queue_passes(reverb):
    conformance.check(reverb, "queue")


@pytest.mark.cluster
def test_reverbs_replay_passes(reverb):
    conformance.check(reverb, samplers=("uniform", "proportional", "rank"))


# Below, each store breaks one rule.


class Broken:
    """Passes all on to a store in this process, whose class is chosen by the table's kind."""

    store_of = {"queue": queue, "replay": host}

    def __init__(self, table: Table):
        self.table = table
        self.store: Any = self.store_of[table.kind](table).store

    def open_writer(self, *arguments):
        self.writer = self.store.open_writer(*arguments)
        return self

    def open_dataset(self, *arguments):
        self.dataset = self.store.open_dataset(*arguments)
        return self

    def append(self, steps):
        return self.writer.append(steps)

    def next(self, timeout_s):
        found = self.dataset.next(timeout_s)
        return found and (self.change(found[0]), found[1])

    def change(self, batch: Batch) -> Batch:
        return batch

    def prioritise(self, drawn, errors):
        self.dataset.prioritise(drawn, errors)

    def ready(self):
        return self.dataset.ready()

    def close(self):
        """Nothing is open."""


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
        self.told, self.rows = table, 0

    def append(self, steps):
        self.rows += 1
        self.writer.append(steps)
        return SLOTS * contract.completes(self.told, self.rows)


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
        self.store._limit = self.store._limit._replace(highest=float("inf"))


class Tight(Broken):
    """Makes writers wait before they are ahead."""

    def __init__(self, table):
        super().__init__(table)
        self.store._limit = self.store._limit._replace(highest=table.batch_size)


class Greedy(Broken):
    """Gives samples that nobody owes, within bounds."""

    def __init__(self, table):
        super().__init__(table)
        self.store._limit = self.store._limit._replace(lowest=-9.0 * table.batch_size)


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


class Weights(Broken):
    """Gives what it holds other weights before each draw."""

    def next(self, timeout_s):
        self.reweigh(self.store._weights, self.store._keys)
        return self.dataset.next(timeout_s)

    def reweigh(self, weights, keys):
        raise NotImplementedError


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
        self.store._choose = lambda number: self.choose(number)

    def choose(self, number):
        weights, keys = self.store._weights, self.store._keys
        places = np.random.default_rng(0).choice(np.flatnonzero(keys >= 0), number)
        return places, (np.sum(keys >= 0) * weights[places] / weights.sum()).astype(np.float32)


class Careless(Broken):
    """Takes errors of any kind."""

    def prioritise(self, drawn, errors):
        self.dataset.prioritise(drawn, np.nan_to_num(np.abs(errors)))


class Confused(Broken):
    """Gives errors of dropped sequences to those in their places."""

    def prioritise(self, drawn, errors):
        keys = self.store._keys[drawn.keys.astype(int) % self.store._size]
        self.dataset.prioritise(drawn._replace(keys=keys.astype(np.uint64)), errors)


class Forgetful(Broken):
    """Begins anew with the priorities lost."""

    def restart(self):
        self.store._weights[self.store._weights > 0] = 1.0
        return self


def uniform(make):
    conformance.check_priorities(make, "uniform", False)


def proportional(make):
    conformance.check_priorities(make, "proportional", False)


def ratio(make):
    conformance.check_ratio(make, False)


def cut(make):
    conformance.check_sequences(make, "replay")


def queue_cut(make):
    conformance.check_sequences(make, "queue")


CASES = [
    (LateCut, cut, "append() gives the number of sequences completed"),
    (LateCut, queue_cut, "append() gives the number of sequences completed"),
    (OtherPeriod, cut, "sequences start every `period` rows"),
    (OtherPeriod, queue_cut, "a queue gives each sequence once, in order"),
    (Mixed, cut, "a sequence is what was written"),
    (OtherClasses, cut, "sequences come back in the agent's own classes"),
    (OtherVersion, cut, "`version` is a mean over a sequence's steps"),
    (NoQueue, queue_cut, "a queue gives each sequence once, in order"),
    (NoQueue, conformance.check_queue, "a queue gives each sequence once, in order"),
    (Boundless, conformance.check_queue, "a queue holds `size` sequences"),
    (Tight, conformance.check_queue, "a writer goes on while it is not ahead"),
    (Boundless, ratio, "a writer that is ahead waits"),
    (Tight, ratio, "a writer goes on while it is not ahead"),
    (Greedy, ratio, "what is owed is drawn, and at most a batch more"),
    (Eager, ratio, "nothing is drawn before there are `min_size` sequences"),
    (Eager, conformance.check_free, "nothing is drawn before there are `min_size` sequences"),
    (NotFree, conformance.check_free, "a writer goes on while it is not ahead"),
    (Never, cut, "ready() says that a batch is due"),
    (TooLarge, conformance.check_oldest_dropped, "a full table drops its oldest sequence"),
    (NewIsLargest, proportional, "`probability` is N p"),
    (NoFloor, proportional, "`probability` is N p"),
    (PlainProbability, uniform, "new sequences are alike; `probability` is N p"),
    (Lying, proportional, "sequences are drawn as often as `probability` says"),
    (Careless, proportional, "errors below 0 or not finite are refused"),
    (Confused, proportional, "`probability` is N p"),
    (Forgetful, conformance.check_restart, "`probability` is N p"),
]


@pytest.mark.parametrize(("store", "check", "rule"), CASES, ids=lambda case: getattr(case, "__name__", None))
def test_a_store_that_breaks_a_rule_is_found(store: type[Broken], check: Callable, rule: str, monkeypatch):
    monkeypatch.setattr("boonta.nodes.tables.judge.PATIENCE_S", 0.2)
    monkeypatch.setattr("boonta.nodes.tables.judge.DEADLINE_S", 2.0)

    def make(table: Table) -> Opened:
        broken = store(table)
        return Opened(broken, restart=getattr(broken, "restart", None))

    with pytest.raises(ConformanceError, match=re.escape(rule)):
        check(make)


def test_rounds_of_another_ratio_are_found(monkeypatch):
    monkeypatch.setattr("boonta.nodes.tables.judge.PATIENCE_S", 0.2)

    def make(table: Table) -> Opened:
        store = DeviceStore(table)
        store._round = (1, 2)
        return Opened(store)

    with pytest.raises(ConformanceError, match="what is owed is drawn, and at most a batch more"):
        conformance.check_ratio(make, in_rounds=True)
