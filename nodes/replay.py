"""The replay server: Reverb tables as the agent's `Table`s describe them, checkpointed in the run's folder."""

from __future__ import annotations

from nodes import rlax_first  # noqa: F401

# isort: split

import pathlib
import socket
import time
from typing import Any

import jax
import reverb
import tensorflow as tf
from launchpad import address as lp_address
from launchpad.nodes.reverb.node import ReverbHandle

from agents.base import Agent, Table
from envs.base import EnvSpec
from nodes.base import Periodic
from nodes.play import step_shapes
from nodes.workers import WorkerNode

SAVE_EVERY_S = 600.0


class ReplayNode(WorkerNode):
    """Launchpad's node for `Replay`; its handle becomes a `reverb.Client`.

    Args:
      name, agent, spec, folder, monitor: as `Replay` takes them.
    """

    def __init__(self, name: str, agent: Agent, spec: EnvSpec, folder: str, monitor: Any):
        address = lp_address.Address("reverb")
        super().__init__(Replay, name, address, agent, spec, folder, monitor)
        self._address = address
        self.allocate_address(address)

    def create_handle(self) -> ReverbHandle:
        return self._track_handle(ReverbHandle(self._address))


class Replay(Periodic):
    """Serves the tables, reports their flow, and saves them now and then and when it ends.

    Args:
      name: of this node.
      address: to serve on, bound by the launcher.
      agent: whose tables these are.
      spec: of the environment, for the tables' signature.
      folder: for checkpoints; one found there is loaded.
      monitor: handle.
    """

    serves = True

    def __init__(self, name: str, address: Any, agent: Agent, spec: EnvSpec, folder: str, monitor: Any = None):
        super().__init__(name, monitor, every_s=1.0)
        self._address = address
        self._agent = agent
        self._spec = spec
        self._folder = pathlib.Path(folder).absolute()

    def start(self) -> None:
        port = lp_address.get_port_from_address(self._address.resolve())
        require_free(port)
        signature = step_shapes(self._agent, self._spec)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._server = reverb.Server(
            tables=[make_table(table, signature) for table in self._agent.tables],
            port=port,
            checkpointer=reverb.checkpointers.DefaultCheckpointer(str(self._folder)),
        )
        self._client = self._server.localhost_client()
        self._saved_at = time.monotonic()

    def round(self) -> None:
        for name, info in self._client.server_info().items():
            limiter = info.rate_limiter_info
            self.measure(
                {
                    f"{name}/size": info.current_size,
                    f"{name}/inserted": limiter.insert_stats.completed,
                    f"{name}/sampled": limiter.sample_stats.completed,
                }
            )
        if time.monotonic() - self._saved_at > SAVE_EVERY_S:
            self._save()

    def close(self) -> None:
        if hasattr(self, "_server"):
            self._save()
            self._server.stop()

    def _save(self) -> None:
        with self.stopwatch("saving the tables"):
            self._client.checkpoint()
        self._saved_at = time.monotonic()


def make_table(table: Table, signature: Any) -> reverb.Table:
    """The Reverb table for a `Table`.

    Args:
      table: the contract.
      signature: shapes of one raw step, as `Steps`.
    """
    sequence = jax.tree.map(
        lambda leaf: tf.TensorSpec((table.sequence_length, *leaf.shape), tf.as_dtype(leaf.dtype)), signature
    )
    if table.kind == "queue":
        return reverb.Table.queue(table.name, table.size, signature=sequence)
    raise ValueError(f"table {table.name!r}: the replay server serves kind 'queue', not {table.kind!r}")


def require_free(port: int) -> None:
    """Raises OSError, naming the port, if something listens there; Reverb itself would only abort."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise OSError(f"port {port} for the replay server is in use") from error
