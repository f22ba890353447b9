"""Equal parts of a table, for the hosts or replay servers that share it, or of its batches, for several learners."""

from __future__ import annotations

import dataclasses

from boonta.agents.base import Table

SERVERS, HOSTS = "replay servers", "hosts"  # What a table is divided over, for messages.


def divided(table: Table, number: int, over: str) -> Table:
    """One of `number` equal parts of a table: it keeps what its own actors write, and gives a part of each batch.

    Args:
      table: the whole.
      number: how many parts there are.
      over: what has the parts, for messages: `SERVERS` or `HOSTS`.

    Raises:
      ValueError: batch_size or size doesn't divide.
    """
    for field in ("batch_size", "size"):
        if getattr(table, field) % number:
            raise ValueError(
                f"table {table.name!r}: {field} is {getattr(table, field)}; it must divide over {number} {over}"
            )
    return dataclasses.replace(
        table,
        batch_size=table.batch_size // number,
        size=table.size // number,
        min_size=max(1, table.min_size // number),
    )


def require_divisible(table: Table, servers: int) -> None:
    """Refuses a table that can't be divided over `servers` replay servers.

    Raises:
      ValueError: names the table and its setting.
    """
    divided(table, servers, SERVERS)
    if servers > 1 and table.max_staleness is not None:
        raise ValueError(
            f"table {table.name!r}: max_staleness is {table.max_staleness}, so that its sequences must come in the "
            f"order in which they were written; {servers} replay servers can't keep it: give one"
        )


def drawn_by_one(table: Table, learners: int) -> Table:
    """A table as one of several learners draws from it: an equal part of each batch, of all that the table holds.

    Raises:
      ValueError: batch_size doesn't divide.
    """
    if table.batch_size % learners:
        raise ValueError(
            f"table {table.name!r}: batch_size is {table.batch_size}; it must divide over {learners} learners"
        )
    return dataclasses.replace(table, batch_size=table.batch_size // learners)
