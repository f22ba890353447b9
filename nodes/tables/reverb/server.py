"""A Reverb server, and its tables, as the agent's `Table`s describe them."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from boonta.agents.base import Steps, Table
from boonta.nodes.rpc.wire import free_port
from boonta.nodes.tables import contract
from boonta.nodes.tables.reverb.client import Client
from boonta.nodes.tables.reverb.library import load
from boonta.nodes.tables.reverb.signature import EVERY, columns, decode, encode


class Server:
    """Serves tables until it is stopped.

    Args:
      tables: Reverb's tables, as `make_table` makes them.
      port: where it listens; None for any that is free.
      folder: where checkpoints are saved, and where the newest one is loaded from; None for a server that has none.
    """

    def __init__(self, tables: Sequence[Any], port: int | None = None, folder: pathlib.Path | str | None = None):
        pybind = load().pybind
        self.port = free_port() if port is None else port
        checkpointer = None if folder is None else pybind.create_default_checkpointer(str(folder), "", None)
        self._server = pybind.Server(list(tables), self.port, checkpointer)

    def client(self) -> Client:
        """A client of this server."""
        return Client(f"localhost:{self.port}")

    def stop(self) -> None:
        """Ends the service; writers and readers that wait for it go on waiting."""
        self._server.Stop()


def make_table(table: Table, signature: Steps) -> Any:
    """The Reverb table for a `Table`.

    Args:
      table: the contract.
      signature: shapes of one raw step.
    """
    pybind, queue = load().pybind, table.kind == "queue"
    # Ranks are made into priorities 1 / rank by `nodes.tables.priorities`.
    if table.is_prioritised:
        sampler = pybind.PrioritizedSelector(table.priority_exponent)
    else:
        sampler = pybind.FifoSelector() if queue else pybind.UniformSelector()
    return pybind.Table(
        name=table.name,
        sampler=sampler,
        remover=pybind.FifoSelector(),
        max_size=table.size,
        max_times_sampled=1 if queue else 0,  # 0 is as often as it is drawn.
        rate_limiter=_limiter(table),
        extensions=[],
        signature=encode(columns(table, signature)),
    )


def _limiter(table: Table) -> Any:
    """Reverb's limiter that decides as `nodes.tables.contract.rate_limit` does; it counts the first sequences, too."""
    limit = contract.rate_limit(table)
    filled = limit.samples_per_insert * limit.min_size
    return load().pybind.RateLimiter(
        samples_per_insert=limit.samples_per_insert,
        min_size_to_sample=max(1, limit.min_size),
        min_diff=filled + limit.lowest,
        max_diff=filled + limit.highest,
    )


def table_info(table: Any) -> Any:
    """The `TableInfo` of a table that isn't served yet."""
    return load().TableInfo.FromString(table.info())


# What a user can do about saved tables that aren't those that are asked for.
REMEDY = "Give the settings as they were, or delete that folder to start with empty tables"


def require_same(restored: Mapping[str, Any], wanted: Mapping[str, Any], folder: pathlib.Path) -> None:
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
        raise ValueError(f"{folder} holds tables made with other settings: {'; '.join(changed)}. {REMEDY}")


def _contract(info: Any) -> dict[str, Any]:
    limiter = info.rate_limiter_info
    steps, *core = map(str, decode(info.signature))
    steps, _, period = steps.partition(EVERY)
    return {
        "size": info.max_size,
        "sampler": " ".join(str(info.sampler_options).split()),
        "samples_per_insert": limiter.samples_per_insert,
        "min_size": limiter.min_size_to_sample,
        "bounds of the samples owed": (limiter.min_diff, limiter.max_diff),
        "period": period or "missing",
        "steps": steps,
        **dict(zip(("core",), core)),
    }
