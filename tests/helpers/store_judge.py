"""Writes a known stream of rows to a store and looks at what comes out, for `store_conformance`.

Every row contains its slot and its time. So nothing of the contract's arithmetic is needed to see which rows a
sequence is made of.

Glossary of shapes: B batch, T time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent import futures
from typing import Any, NamedTuple

import jax
import numpy as np
import tree
from jax.sharding import Mesh

from boonta.agents.base import Batch, Steps, Table
from boonta.envs.base import FIRST, LAST, MID
from boonta.nodes.base import Node
from boonta.nodes.hosts.placement import batch_sharding
from boonta.nodes.tables.base import Drawn, Store

SLOTS = 2
PATIENCE_S = 1.0  # A writer that has not gone on for so long is waiting.
WAITS = 10
DEADLINE_S = 150.0  # A side that may go on does so within this time; a stream to a server may take 120 s to connect.
FETCHED_AHEAD = 3  # A dataset may have drawn so many batches before they are asked for.
SLOT_NUMBERS = 1000  # Rows of slot i are numbered from i times this.
ROWS = 500  # No check writes more.

Name = tuple[int, int]  # A sequence's slot and first row.


class ConformanceError(AssertionError):
    """A store breaks a rule of the contract; the message has the rule, and what was seen instead."""

    def __init__(self, rule: str, seen: object):
        super().__init__(f"rule: {rule}; seen: {seen}")


class Opened(NamedTuple):
    """A store with one table to be judged.

    Attributes:
      store: keeps the table.
      close: ends it.
      flush: waits until all complete sequences of a writer are in the table, where some may be under way.
      restart: saves the table, ends the store and gives one that has begun anew; None where nothing is saved.
    """

    store: Store
    close: Callable[[], None] = lambda: None
    flush: Callable[[Any], None] = lambda writer: None
    restart: Callable[[], Store] | None = None


Make = Callable[[Table], Opened]  # A store for one group of `SLOTS` slots, whose rows are as in `SIGNATURE`.


class Seen(NamedTuple):
    """An observation with a class of its own."""

    view: np.ndarray
    legal: np.ndarray


class Remembered(NamedTuple):
    """Extras with a class of their own, and nests in it."""

    value: np.ndarray
    core: dict[str, tuple[np.ndarray, ...]]


def row(t: int) -> Steps:
    """Row t of all slots, leaves [B, ...]; episodes end after four rows, at another time in each slot."""
    slot = np.arange(SLOTS)
    number = (SLOT_NUMBERS * slot + t).astype(np.float32)
    place = (t + slot) % 4
    step_type = np.where(place == 0, FIRST, np.where(place == 3, LAST, MID)).astype(np.int32)
    discount = np.where(step_type == LAST, 0, 1).astype(np.float32)
    seen = Seen(np.stack([number, -number], axis=1), np.stack([place == 0, place != 0], axis=1))
    remembered = Remembered(number + 0.5, {"b": (number, 2 * number), "a": (3 * number,)})
    version = np.full(SLOTS, t // 3, np.int32)
    core = (number + 0.25, {"hidden": np.stack([number, -number], axis=1)})
    return Steps(seen, step_type, number, discount, place.astype(np.int32), remembered, version, core)


def errors_of_rows(steps: Steps) -> Any:
    """Errors of fresh sequences, a `Table.errors`, by the extras of the first and of the last row; some are 0."""
    number = tree.flatten(steps.extras)[0] - 0.5
    return number[0] % 4 + number[-1] % 3


def fresh_error(table: Table, name: Name) -> float:
    """The error of the sequence with this name by `errors_of_rows`."""
    slot, start = name
    rows = slice(start, start + table.sequence_length)
    return float(errors_of_rows(tree.map_structure(lambda leaf: leaf[rows], STREAM))[slot])


def endless_errors(steps: Steps) -> Any:
    """Errors that are none."""
    return tree.flatten(steps.extras)[0][-1] * np.inf


SIGNATURE: Steps = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), row(0))
STREAM: Steps = tree.map_structure(lambda *leaves: np.stack(leaves), *[row(t) for t in range(ROWS)])  # [T, B, ...]


class Judge:
    """A writer and a dataset on a new store, while `with` lasts.

    Args:
      make: opens the store.
      table: the table to write and read.

    Attributes:
      opened: the store.
      counts: what each call of `append` gave.
      drawn: samples that were taken.
    """

    def __init__(self, make: Make, table: Table):
        self.opened = make(table)
        self.counts: list[int] = []
        self.drawn = 0
        self._table = table
        self._node = Node("judge")
        self._store = self.opened.store
        self._writer = self._store.open_writer([table], SLOTS, self._node.wait_for, 0)
        self._dataset: Any = None
        self._thread = futures.ThreadPoolExecutor(1)  # Writing may have to wait for the store.
        self._appending: futures.Future[None] | None = None

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *error: Any) -> None:
        self._node.stop()
        self._thread.shutdown()
        self._writer.close()
        self.opened.close()
        if self._dataset is not None:
            self._dataset.close()

    @property
    def dataset(self) -> Any:
        """The dataset, which is opened when it is first asked for, so that it reads nothing ahead before."""
        if self._dataset is None:
            mesh = Mesh(np.array(jax.devices()[:1]), ("batch",))
            self._dataset = self._store.open_dataset([self._table], batch_sharding(mesh), self._node.wait_for, 0)
        return self._dataset

    @property
    def inserted(self) -> int:
        """Sequences of all calls of `append` that have come back."""
        return sum(self.counts)

    # Writing.

    def write(self, rows: int) -> None:
        """Writes until each slot has had so many rows."""
        while len(self.counts) < rows:
            self._begin()
            self.settle()

    def write_until_blocked(self, most: int) -> int:
        """Writes until the store makes the writer wait, or has taken `most` sequences; returns how many it has."""
        while self.inserted < most:
            appending = self._begin()
            # Many short waits: if the machine stops for a moment, only one of them ends early.
            if all(futures.wait([appending], timeout=PATIENCE_S / WAITS).not_done for _ in range(WAITS)):
                break
            self.settle()
        return self.inserted

    def settle(self) -> None:
        """Waits until the row that is being written is written."""
        if self._appending is not None:
            try:
                self._appending.result(DEADLINE_S)
            except futures.TimeoutError:
                raise ConformanceError("a writer goes on while it is not ahead", f"row {len(self.counts)}") from None
            self._appending = None

    def _begin(self) -> futures.Future[None]:
        self._appending = self._thread.submit(self._append)
        return self._appending

    def _append(self) -> None:
        sequences = self._writer.append(row(len(self.counts)))
        self.opened.flush(self._writer)
        self.counts.append(sequences)

    # Reading.

    def draw(self) -> list[Name]:
        """The names of the sequences of a batch that is due."""
        return self.sample()[0]

    def sample(self) -> tuple[list[Name], Drawn, np.ndarray]:
        """A batch that is due: the names of its sequences, where it came from, N p."""
        if not self.dataset.ready():
            raise ConformanceError("ready() says that a batch is due", f"{self.inserted} inserted, {self.drawn} drawn")
        found = self.dataset.next(DEADLINE_S)
        if found is None:
            raise ConformanceError("a batch that is due is given", f"{self.inserted} inserted, {self.drawn} drawn")
        batch, drawn = found
        names = self._verify(batch, drawn)
        self.drawn += len(names)
        return names, drawn, np.asarray(batch.probability)

    def drain(self) -> Iterator[Name]:
        """The names of all sequences that the store gives now."""
        while self.dataset.ready():
            yield from self.draw()

    def _verify(self, batch: Batch, drawn: Drawn) -> list[Name]:
        """Compares every leaf with what was written, and returns the names of the batch's sequences."""
        classes: Any = jax.tree.structure(batch.steps)
        if classes != jax.tree.structure(SIGNATURE):
            raise ConformanceError("sequences come back in the agent's own classes", classes)
        slot, start = np.divmod(np.asarray(batch.steps.reward)[0].astype(int), SLOT_NUMBERS)  # [B]
        rows = start + np.arange(self._table.sequence_length)[:, None]  # [T, B]
        expected = tree.map_structure(lambda leaf: leaf[rows, slot], STREAM)
        core_row = self._table.core_row
        expected = expected._replace(core=tree.map_structure(lambda leaf: leaf[[core_row]], expected.core))
        for (path, wanted), leaf in zip(tree.flatten_with_path(expected), tree.flatten(batch.steps)):
            if leaf.shape != wanted.shape or leaf.dtype != wanted.dtype or not np.array_equal(leaf, wanted):
                raise ConformanceError("a sequence is what was written", f"{path} differs")
        if not np.allclose(drawn.version, np.mean(expected.version, axis=0)):
            raise ConformanceError("`version` is a mean over a sequence's steps", drawn.version)
        return list(zip(slot.tolist(), start.tolist()))

    # What is required.

    def require_none(self, rule: str) -> None:
        """Asserts that no batch is due."""
        if self.dataset.ready() or self.dataset.next(PATIENCE_S / 2) is not None:
            raise ConformanceError(rule, f"a batch after {self.inserted} were inserted")

    def require_all(self, expected: Collection[Name], rule: str) -> None:
        """Asserts that these sequences are drawn, and no others."""
        seen = {name for _ in range(8) for name in self.draw()}
        if seen != set(expected):
            raise ConformanceError(rule, f"slots and first rows {sorted(seen)} instead of {sorted(expected)}")

    def require_odds(self, expected: dict[Name, float]) -> None:
        """Asserts that sequences are drawn with these N p, and no others, and that batches have these numbers."""
        for _ in range(FETCHED_AHEAD):
            self.sample()
        times = dict.fromkeys(expected, 0)
        for _ in range(20):
            names, _, probability = self.sample()
            if not set(names) <= set(expected):
                raise ConformanceError("what was dropped is not drawn", sorted(set(names) - set(expected)))
            wanted = [expected[name] for name in names]
            if not np.allclose(probability, wanted, rtol=1e-3):
                raise ConformanceError("`probability` is N p", f"{dict(zip(names, probability))} instead of {expected}")
            for name in names:
                times[name] += 1
        total = sum(times.values())  # 640 draws: four standard deviations are below 0.08.
        if any(abs(number / total - expected[name] / len(expected)) > 0.08 for name, number in times.items()):
            raise ConformanceError("sequences are drawn as often as `probability` says", f"{times} for {expected}")

    def require_refused(self, drawn: Drawn) -> None:
        """Asserts that errors that are none are refused."""
        for bad in (-1.0, np.nan, np.inf):
            try:
                self.dataset.prioritise(drawn, np.full(len(drawn.keys), bad, np.float32))
            except ValueError:
                continue
            raise ConformanceError("errors below 0 or not finite are refused", bad)

    def require_unwritten(self, rows: int) -> None:
        """Asserts that sequences with errors that are none are refused when they are written."""
        try:
            self.write(rows)
        except ValueError:
            return
        raise ConformanceError("fresh errors below 0 or not finite are refused", self.counts)

    def restart(self, restart: Callable[[], Store]) -> None:
        """Begins the store anew, and reads what it has saved."""
        self._writer.close()
        self._dataset, old = None, self._dataset
        self._store = restart()
        old.close()
