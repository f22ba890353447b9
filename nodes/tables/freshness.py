"""Fresh data: how the bound on the age of a queue's sequences, `Table.max_staleness`, is kept.

The version of params is the number of updates behind them; the learner publishes each. Batch number i is for the update
after `i` others, so that it is known when a sequence is drawn how old it will be. Two rules keep the bound:

- The dataset leaves out sequences that would be too old (`fresh`). So no batch ever has one, whatever happens.
- Actors begin no sequence that would be left out (`nodes.acting.allowance`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from boonta.agents.base import Table

POLL_S = 0.005  # Time between two looks for newer params.


def fresh(table: Table, version: np.ndarray, updates: int) -> Any:
    """Which sequences an update may learn from, bool [B].

    A version above `updates` comes from a learner that died; what it had learned is lost, so this data is left out.

    Args:
      table: the table.
      version: int32 [T, B], of the params that acted.
      updates: updates before this one.
    """
    if table.max_staleness is None:
        return np.ones(version.shape[1], bool)
    learned = version[table.core_row :]
    return (learned.min(axis=0) >= updates - table.max_staleness) & (learned.max(axis=0) <= updates)


def bounded(tables: Sequence[Table]) -> Table | None:
    """The first table whose data must be fresh; None if there is none."""
    return next((table for table in tables if table.max_staleness is not None), None)


def in_turns(tables: Sequence[Table], shared: bool) -> bool:
    """Whether an update must be computed before the next batch is drawn.

    With a bound of 0, new data exists only after the update. From `shared` tables, a learner that draws early takes
    sequences that another needs now.
    """
    table = bounded(tables)
    return table is not None and (shared or table.max_staleness == 0)


def require_every_published(name: str, tables: Sequence[Table], updates_per_step: int, publish_every: int) -> None:
    """Refuses updates that aren't published one by one where data must be fresh: actors would wait for the others.

    Raises:
      ValueError: names the learner, `name`, and its settings.
    """
    table = bounded(tables)
    if table is not None and (updates_per_step, publish_every) != (1, 1):
        raise ValueError(
            f"{name}: updates_per_step is {updates_per_step}, publish_every {publish_every}; both must be 1, since "
            f"table {table.name!r} has max_staleness {table.max_staleness}"
        )


def require_slots(who: str, table: Table, slots: int) -> None:
    """Refuses environment slots whose sequences don't make whole batches that are fresh.

    Raises:
      ValueError: names the numbers that can work.
    """
    if not fits(table, slots):
        raise ValueError(
            f"{who}: all actors have {slots} environments (num_envs), and batch_size is {table.batch_size}, of params "
            f"at most {table.max_staleness} updates old (max_staleness): the environments must divide batch_size, or "
            f"be a multiple of it up to {table.batch_size * ((table.max_staleness or 0) + 1)}"
        )


def fits(table: Table, slots: int) -> bool:
    """Whether the sequences of `slots` slots make whole batches that are fresh."""
    if table.max_staleness is None:
        return True
    size = table.batch_size
    return size % slots == 0 or (slots % size == 0 and slots // size <= table.max_staleness + 1)


def usual_slots(table: Table, actors: int, most: int) -> int:
    """Environments per actor, of `actors`: `most` or, where data must be fresh, the largest number below that fits."""
    return next((size for size in range(most, 0, -1) if fits(table, actors * size)), most)
