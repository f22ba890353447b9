"""Holds a store of tables to `nodes.tables.contract`.

    store_conformance.check(make, samplers=("uniform",))

Each check writes a known stream of rows and looks at what comes out; see `store_judge`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from boonta.agents.base import Sampler, Table
from boonta.nodes.tables import contract
from boonta.tests.helpers.store_judge import (
    FETCHED_AHEAD,
    SLOTS,
    ConformanceError,
    Judge,
    Make,
    Name,
    endless_errors,
    errors_of_rows,
    fresh_error,
)

QUEUE = Table("judged", "queue", sequence_length=3, period=2, batch_size=4, size=8)
REPLAY = dataclasses.replace(
    QUEUE, kind="replay", sampler="uniform", batch_size=32, size=100, samples_per_insert=None, priority_exponent=0.5
)


def check(
    make: Make, kind: str = "replay", samplers: Sequence[Sampler] = ("uniform",), in_rounds: bool = False
) -> None:
    """Asserts every rule of the contract.

    Args:
      make: opens a new store with a table.
      kind: the kind of table that it keeps.
      samplers: the samplers that it has.
      in_rounds: whether it is written and read in turn, by a program that decides itself when: then nothing comes
        between a draw and its errors, and the samples owed are the same after each round.

    Raises:
      ConformanceError: a rule is broken.
    """
    check_sequences(make, kind)
    if kind == "queue":
        check_queue(make)
        return
    check_oldest_dropped(make)
    check_free(make)
    check_ratio(make, in_rounds)
    for sampler in samplers:
        check_priorities(make, sampler, in_rounds)
    if "proportional" in samplers:
        check_fresh(make, in_rounds)
    check_restart(make)


def check_sequences(make: Make, kind: str) -> None:
    """Asserts that sequences overlap, touch or lie apart as the table says, and are what was written, with one core."""
    for length, period, core_row in ((4, 2, 3), (3, 3, 1), (2, 5, 0)):
        table = QUEUE if kind == "queue" else REPLAY
        table = dataclasses.replace(table, sequence_length=length, period=period, core_row=core_row, size=100)
        rows = 13
        starts = [start for start in range(0, rows, period) if start + length <= rows]
        expected = [(slot, start) for start in starts for slot in range(SLOTS)]
        with Judge(make, table) as judge:
            judge.write(rows)
            counts = [SLOTS if t + 1 - length in starts else 0 for t in range(rows)]
            if judge.counts != counts:
                raise ConformanceError("append() gives the number of sequences completed", f"{judge.counts}")
            if kind == "queue":
                whole = len(expected) - len(expected) % table.batch_size
                names = [name for _ in range(whole // table.batch_size) for name in judge.draw()]
                if names != expected[:whole]:
                    raise ConformanceError("a queue gives each sequence once, in order", names)
                continue
            judge.require_all(set(expected), "sequences start every `period` rows")


def check_queue(make: Make) -> None:
    """Asserts that a full queue blocks its writer, and loses nothing."""
    with Judge(make, QUEUE) as judge:
        most = QUEUE.size + FETCHED_AHEAD * QUEUE.batch_size
        judge.write(contract.rows_of(QUEUE, QUEUE.size // SLOTS))
        written = judge.write_until_blocked(most + SLOTS)
        if written > most:
            raise ConformanceError("a queue holds `size` sequences", f"{written} of {QUEUE.size}")
        names = list(judge.drain())
        judge.settle()
        names += judge.drain()
        expected = [(slot, 2 * i) for i in range(len(names)) for slot in range(SLOTS)][: len(names)]
        if names != expected or judge.inserted - len(names) >= QUEUE.batch_size:
            raise ConformanceError("a queue gives each sequence once, in order", names)


def check_oldest_dropped(make: Make) -> None:
    """Asserts that a full replay table has the newest sequences, `size` of them."""
    with Judge(make, dataclasses.replace(REPLAY, size=6)) as judge:
        judge.write(contract.rows_of(REPLAY, 7))
        newest = {(slot, start) for slot in range(SLOTS) for start in (8, 10, 12)}
        judge.require_all(newest, "a full table drops its oldest sequence")


def check_free(make: Make) -> None:
    """Asserts that without `samples_per_insert` nobody waits but for the table's minimum."""
    table = dataclasses.replace(REPLAY, min_size=3, batch_size=4)
    with Judge(make, table) as judge:
        judge.write(table.sequence_length)
        judge.require_none("nothing is drawn before there are `min_size` sequences")
        judge.write(60)
        for _ in range(40):
            judge.draw()


def check_ratio(make: Make, in_rounds: bool) -> None:
    """Asserts that sequences are drawn `samples_per_insert` times, whichever side is faster."""
    table = dataclasses.replace(REPLAY, min_size=4, batch_size=4, samples_per_insert=2.0)
    limit = contract.rate_limit(table)
    with Judge(make, table) as judge:
        judge.write(table.sequence_length)
        judge.require_none("nothing is drawn before there are `min_size` sequences")
        left = []
        for _ in range(3):
            while not in_rounds and limit.owed(judge.inserted + SLOTS, judge.drawn) <= limit.highest:
                judge.write(len(judge.counts) + 1)
            judge.write_until_blocked(200)
            owed = limit.owed(judge.inserted, judge.drawn)
            if owed > limit.highest + FETCHED_AHEAD * table.batch_size:
                raise ConformanceError("a writer that is ahead waits", f"{owed} samples owed")
            list(judge.drain())
            judge.settle()
            list(judge.drain())
            left.append(limit.owed(judge.inserted, judge.drawn))
        bounds = (left[0], left[0] + 1) if in_rounds else (limit.lowest, table.batch_size)
        if not all(bounds[0] <= owed < bounds[1] for owed in left):
            raise ConformanceError("what is owed is drawn, and at most a batch more", f"{left} samples owed")


def check_priorities(make: Make, sampler: Sampler, in_rounds: bool) -> None:
    """Asserts that errors, and the priority of what is new, make the probabilities that the sampler promises."""
    table = dataclasses.replace(REPLAY, sampler=sampler, size=6)
    errors = {(0, 0): 4.0, (1, 0): 0.0, (0, 2): 0.5, (1, 2): 0.25}
    with Judge(make, table) as judge:
        judge.write(contract.rows_of(table, 2))
        names, drawn, probability = judge.sample()
        if not np.allclose(probability, 1, rtol=1e-4):
            raise ConformanceError("new sequences are alike; `probability` is N p", probability)
        if sampler != "uniform" and not in_rounds:
            judge.require_refused(drawn)
        judge.dataset.prioritise(drawn, np.array([errors[name] for name in names], np.float32))
        judge.write(contract.rows_of(table, 3))
        judge.require_odds(_odds(table, {name: errors[name] for name in names}, {*errors, (0, 4), (1, 4)}))
        if in_rounds:
            return
        judge.write(contract.rows_of(table, 6))
        judge.dataset.prioritise(drawn, np.full(len(names), 9.0, np.float32))
        newest = {(slot, start) for slot in range(SLOTS) for start in (6, 8, 10)}
        judge.require_odds(_odds(table, {}, newest))


def check_fresh(make: Make, in_rounds: bool) -> None:
    """Asserts that new sequences have the errors that the table's agent has for them, until they are drawn."""
    table = dataclasses.replace(REPLAY, sampler="proportional", size=6, errors=errors_of_rows)
    held = {(slot, start) for slot in range(SLOTS) for start in (4, 6, 8)}
    errors = {name: fresh_error(table, name) for name in held}
    with Judge(make, table) as judge:
        judge.write(contract.rows_of(table, 5))
        judge.require_odds(_odds(table, errors, held))
    if in_rounds:
        return
    with Judge(make, dataclasses.replace(table, errors=endless_errors)) as judge:
        judge.require_unwritten(table.sequence_length)


def check_restart(make: Make) -> None:
    """Asserts that a store that saves its table has the same sequences and priorities when it has begun anew."""
    table = dataclasses.replace(REPLAY, sampler="proportional")
    with Judge(make, table) as judge:
        if judge.opened.restart is None:
            return
        judge.write(contract.rows_of(table, 2))
        names, drawn, _ = judge.sample()
        errors = {(0, 0): 4.0, (1, 0): 0.0, (0, 2): 0.5, (1, 2): 0.25}
        judge.dataset.prioritise(drawn, np.array([errors[name] for name in names], np.float32))
        judge.restart(judge.opened.restart)
        judge.require_odds(_odds(table, {name: errors[name] for name in names}, set(errors)))


def _odds(table: Table, errors: dict[Name, float], held: set[Name]) -> dict[Name, float]:
    """N p of each sequence that the table holds, of which some have errors and the others are new."""
    ranks = {name: rank for rank, name in enumerate(sorted(errors, key=lambda name: -errors[name]), start=1)}
    weights = {}
    for name in held:
        priority = contract.NEW_PRIORITY
        if name in errors:
            priority = errors[name] + contract.PRIORITY_FLOOR if table.sampler == "proportional" else 1 / ranks[name]
        weights[name] = 1.0 if table.sampler == "uniform" else priority**table.priority_exponent
    total = sum(weights.values())
    return {name: len(held) * weight / total for name, weight in weights.items()}
