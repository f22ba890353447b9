"""The store on replay servers: its handles, by which nodes write and read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from boonta.agents.base import Batch, Steps, Table
from boonta.nodes.tables.base import Dataset, Stream, WaitFor, Writer
from boonta.nodes.tables.division import drawn_by_one
from boonta.nodes.tables.freshness import bounded
from boonta.nodes.tables.reverb.client import Client


def connect(address: str, signature: Callable[[], Steps] | None) -> ReverbStore:
    """The store on a replay server.

    Args:
      address: the server's, as "host:port".
      signature: makes one raw step in the agent's own classes, for a node that reads; None for one that only writes.
    """
    return ReverbStore([Client(address)], signature)


def joined(stores: Sequence[ReverbStore], first: int = 0, learners: int = 1) -> ReverbStore:
    """One store of several, each of which has one replay server.

    Args:
      stores: the stores, in the order of the servers.
      first, learners: as for `ReverbStore`.
    """
    clients = [client for store in stores for client in store.clients]
    return ReverbStore(clients, stores[0].signature, first, learners)


class ReverbStore:
    """The tables of one replay server, or of several with equal parts of them; see `nodes.tables.base.ReplayStore`.

    With several, the groups of all writers are dealt to the servers in turn, and readers draw from all.

    Args:
      clients: a client of each server.
      signature: makes one raw step in the agent's own classes; None for a node that only writes.
      first: the number of this node's first group of slots among those of all nodes of its kind.
      learners: the learners that learn together; this one's batches are an equal part of theirs.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        signature: Callable[[], Steps] | None = None,
        first: int = 0,
        learners: int = 1,
    ):
        self.clients = clients
        self.signature = signature
        self._first = first
        self._learners = learners

    def open_writer(self, tables: Sequence[Table], num_envs: int, wait_for: WaitFor, group: int) -> Writer:
        """A group's writer; see `nodes.tables.base.Store`."""
        from boonta.nodes.tables.reverb.writer import ReverbWriter

        client = self.clients[(self._first + group) % len(self.clients)]
        return ReverbWriter(client, tables, num_envs, wait_for)

    def open_dataset(self, tables: Sequence[Table], sharding: Batch, wait_for: WaitFor, updates: int) -> Dataset:
        """The learner's batches, or its part of them; see `nodes.tables.base.Store`."""
        from boonta.nodes.tables.reverb.dataset import ReverbDataset

        own = [drawn_by_one(table, self._learners) for table in tables]
        # With several learners and fresh data, none may draw ahead: another may need these sequences for this update.
        ahead = self._learners == 1 or bounded(own) is None
        return ReverbDataset(self.clients, own, sharding, self._require_signature(), wait_for, updates, ahead=ahead)

    def open_stream(self, table: Table, size: int, in_flight: int) -> Stream:
        """A table's sequences; see `nodes.tables.base.ReplayStore`."""
        from boonta.nodes.tables.reverb import streams

        return streams.open_stream(self.clients, table, self._require_signature(), size, in_flight)

    def _require_signature(self) -> Steps:
        if self.signature is None:
            raise ValueError("this handle of the replay server only writes; make one that reads")
        return self.signature()
