"""Clients of the replay server: Reverb's, or one that can only write and so does without TensorFlow.

Importing Reverb imports TensorFlow, for datasets and servers: 400 MB and the time of a hundred other modules, in each
actor. The writer itself is C++ that needs one small library of TensorFlow's, which courier loads as well.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

REVERB = "reverb"
LIBRARY = "reverb.libpybind"


def connect(address: str, reads: bool) -> Any:
    """A client of a replay server: a `reverb.Client`, or a `WriteOnlyClient` where that is enough.

    It is the whole client where Reverb is in the process anyway: where all nodes are threads of one.

    Args:
      address: the server's, as "host:port".
      reads: whether the node that gets the client reads, too.
    """
    if REVERB not in sys.modules:
        if not reads:
            return WriteOnlyClient(address)
        from boonta.agents import rlax_first  # noqa: F401
    import reverb

    return reverb.Client(address)


class WriteOnlyClient:
    """What `nodes.tables.reverb.writer.Writer` uses of a `reverb.Client`.

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
    whoever imports Reverb later gets all of it.
    """
    import courier  # noqa: F401  # loads TensorFlow's small library, which Reverb's own would not find

    spec = importlib.util.find_spec(REVERB)
    if spec is None:
        raise ImportError("writing to a replay server needs dm-reverb")
    before = set(sys.modules)
    sys.modules[REVERB] = package = importlib.util.module_from_spec(spec)  # not executed
    try:
        library = importlib.import_module(LIBRARY)
        sys.modules[f"{REVERB}.pybind"] = library  # whose own module would import TensorFlow first
        vars(package)["pybind"] = library
        return library, importlib.import_module(f"{REVERB}.trajectory_writer")
    finally:
        for name in set(sys.modules) - before - {LIBRARY}:
            if name.partition(".")[0] == REVERB:
                del sys.modules[name]
