"""Tables of a Reverb server, as the agent's `Table`s describe them.

Reverb, and with it TensorFlow, is imported where tables are made, not in a launcher, which only declares them.
"""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

import tree

from boonta.agents.base import Steps, Table
from boonta.nodes.tables import contract
from boonta.nodes.tables.reverb.signature import columns

if TYPE_CHECKING:
    import reverb
    from reverb.reverb_types import TableInfo


def make_table(table: Table, signature: Steps) -> reverb.Table:
    """The Reverb table for a `Table`.

    Args:
      table: the contract.
      signature: shapes of one raw step.
    """
    import reverb

    sequence = columns(table, signature)
    if table.kind == "queue":
        return reverb.Table.queue(table.name, table.size, signature=sequence)
    selectors = reverb.selectors
    # Ranks are made into priorities 1 / rank by `nodes.tables.priorities`.
    prioritised = table.sampler in ("proportional", "rank")
    return reverb.Table(
        name=table.name,
        sampler=selectors.Prioritized(table.priority_exponent) if prioritised else selectors.Uniform(),
        remover=selectors.Fifo(),
        max_size=table.size,
        rate_limiter=make_limiter(table),
        signature=sequence,
    )


def make_limiter(table: Table) -> reverb.rate_limiters.RateLimiter:
    """Reverb's limiter of a replay table that decides as `nodes.tables.contract.rate_limit` does."""
    import reverb

    limit = contract.rate_limit(table)
    if table.samples_per_insert is None:
        return reverb.rate_limiters.MinSize(limit.min_size)
    bounds = (limit.lowest, limit.highest)
    return reverb.rate_limiters.SampleToInsertRatio(limit.samples_per_insert, limit.min_size, bounds)


def require_same(restored: dict[str, TableInfo], wanted: dict[str, TableInfo], folder: pathlib.Path) -> None:
    """Raises ValueError if tables restored from a checkpoint differ from those asked for.

    Reverb restores a table with the options that it was saved with, whatever the new one's are. Its sequences can't be
    carried over, and only the user can decide whether they may be lost.
    """
    changed = []
    for name in wanted:
        before, after = _contract(restored[name]), _contract(wanted[name])
        changed += [
            f"{field} of {name!r} was {before.get(field, 'missing')}, is {after.get(field, 'missing')}"
            for field in {**before, **after}
            if before.get(field) != after.get(field)
        ]
    if changed:
        raise ValueError(
            f"{folder} holds tables made with other settings: {'; '.join(changed)}. Give the settings as they were, or "
            "delete that folder to start with empty tables"
        )


def _contract(info: TableInfo) -> dict[str, Any]:
    limiter = info.rate_limiter_info
    return {
        "size": info.max_size,
        "sampler": " ".join(str(info.sampler_options).split()),
        "samples_per_insert": limiter.samples_per_insert,
        "min_size": limiter.min_size_to_sample,
        "bounds of the samples owed": (limiter.min_diff, limiter.max_diff),
        **{
            ("steps", "core")[i]: f"{spec.shape[0]} x {spec.name}"
            for i, spec in enumerate(tree.flatten(info.signature))
        },
    }
