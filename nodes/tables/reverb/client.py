"""The store on a replay server, with Reverb's client or one that can only write and so does without TensorFlow.

Importing Reverb imports TensorFlow, for datasets and servers: 400 MB and the time of a hundred other modules, in each
actor. The writer itself is C++ that needs one small library of TensorFlow's.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from boonta.agents.base import Batch, Steps, Table
from boonta.nodes.tables.base import Dataset, Stream, WaitFor, Writer
from boonta.nodes.tables.division import drawn_by_one

REVERB = "reverb"
LIBRARY = "reverb.libpybind"
TENSORFLOWS = "libtensorflow_framework.so.2"  # Reverb's library needs it, and would not find it by itself.


def connect(address: str, signature: Callable[[], Steps] | None) -> ReverbStore:
    """The store on a replay server, with a `reverb.Client`, or a `WriteOnlyClient` where that is enough.

    It has the whole client where Reverb is in the process anyway: where all nodes are threads of one.

    Args:
      address: the server's, as "host:port".
      signature: makes one raw step in the agent's own classes, for a node that reads; None for one that only writes.
    """
    if REVERB not in sys.modules:
        if signature is None:
            return ReverbStore([WriteOnlyClient(address)])
        from boonta.agents import rlax_first  # noqa: F401
    import reverb

    return ReverbStore([reverb.Client(address)], signature)


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
      clients: a `reverb.Client` or a `WriteOnlyClient` of each server.
      signature: makes one raw step in the agent's own classes; None for a node that only writes.
      first: the number of this node's first group of slots among those of all nodes of its kind.
      learners: the learners that learn together; this one's batches are an equal part of theirs.
    """

    def __init__(
        self,
        clients: Sequence[Any],
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

    def open_dataset(self, tables: Sequence[Table], sharding: Batch, updates: int = 0) -> Dataset:
        """The learner's batches, or its part of them; see `nodes.tables.base.Store`."""
        from boonta.nodes.tables.reverb.dataset import ReverbDataset

        own = [drawn_by_one(table, self._learners) for table in tables]
        return ReverbDataset(self.clients, own, sharding, self._require_signature(), updates)

    def open_stream(self, table: Table, size: int, in_flight: int) -> Stream:
        """A table's sequences; see `nodes.tables.base.ReplayStore`."""
        from boonta.nodes.tables.reverb import streams

        return streams.open_stream(self.clients, table, self._require_signature(), size, in_flight)

    def _require_signature(self) -> Steps:
        if self.signature is None:
            raise ValueError("this handle of the replay server only writes; make one that reads")
        return self.signature()


class WriteOnlyClient:
    """What `nodes.tables.reverb.writer.ReverbWriter` uses of a `reverb.Client`.

    Args:
      server_address: as "host:port".
    """

    def __init__(self, server_address: str):
        self._library, self._trajectory_writer = _load()
        self._client = self._library.Client(server_address)

    def trajectory_writer(self, num_keep_alive_refs: int, *, get_signature_timeout_ms: int | None) -> Any:
        """As `reverb.Client.trajectory_writer`."""
        chunks = self._library.AutoTunedChunkerOptions(num_keep_alive_refs, 1.0)
        stream = self._client.NewTrajectoryWriter(chunks, get_signature_timeout_ms)
        return self._trajectory_writer.TrajectoryWriter(stream)


def _load() -> tuple[Any, Any]:
    """Reverb's C++ library, and its module `trajectory_writer`, without what its package imports besides.

    The package stands empty in `sys.modules` while its two modules are loaded, and is then taken away again, so that
    whoever imports Reverb later gets all of it. This is of dm-reverb 0.7.1; one whose client can be imported without
    TensorFlow makes it needless.
    """
    spec, tensorflow = importlib.util.find_spec(REVERB), importlib.util.find_spec("tensorflow")
    if spec is None or tensorflow is None or tensorflow.origin is None:
        raise ImportError("writing to a replay server needs dm-reverb and TensorFlow")
    ctypes.CDLL(os.path.join(os.path.dirname(tensorflow.origin), TENSORFLOWS))
    before = set(sys.modules)
    sys.modules[REVERB] = package = importlib.util.module_from_spec(spec)  # It isn't executed.
    try:
        library = importlib.import_module(LIBRARY)
        sys.modules[f"{REVERB}.pybind"] = library  # Its own module would import TensorFlow first.
        vars(package)["pybind"] = library
        return library, importlib.import_module(f"{REVERB}.trajectory_writer")
    finally:
        for name in set(sys.modules) - before - {LIBRARY}:
            if name.partition(".")[0] == REVERB:
                del sys.modules[name]
