"""The replay server: Reverb tables for the agent's `Table`s, checkpointed in the run's folder.

Reverb, and with it TensorFlow, is imported only where tables are made, since launchers import this module, too.
"""

from __future__ import annotations

from boonta.agents import rlax_first  # noqa: F401

# isort: split

import pathlib
import socket
import time
from typing import Any

from boonta.agents.base import Agent
from boonta.envs.base import EnvSpec
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.base import Periodic
from boonta.nodes.tables.reverb.server import make_table, require_same

SAVE_EVERY_S = 600.0


class Replay(Periodic):
    """Serves the tables, reports their flow, and saves them every `SAVE_EVERY_S` seconds and at the end.

    Args:
      name: name of this node.
      address: address to serve on; its `resolve()` returns "host:port" once the launcher has bound it.
      agent: the agent with the tables.
      spec: spec of the environment, for the tables' signature.
      folder: folder of the checkpoints; one found there is loaded.
      monitor: handle of the monitor.
    """

    role = "replay"
    serves = True

    def __init__(self, name: str, address: Any, agent: Agent, spec: EnvSpec, folder: str, monitor: Any = None):
        super().__init__(name, monitor, every_s=1.0)
        self._address = address
        self._agent = agent
        self._spec = spec
        self._folder = pathlib.Path(folder).absolute()
        self._saved_the_end = False

    def start(self) -> None:
        import reverb

        port = int(self._address.resolve().rpartition(":")[2])
        require_free(port)
        signature = step_shapes(self._agent, self._spec)
        self._folder.mkdir(parents=True, exist_ok=True)
        tables = [make_table(table, signature) for table in self._agent.tables]
        wanted = {table.name: table.info for table in tables}
        checkpointer = reverb.checkpointers.DefaultCheckpointer(str(self._folder))
        server = reverb.Server(tables, port, checkpointer)
        client = server.localhost_client()
        try:
            require_same(client.server_info(), wanted, self._folder)
        except ValueError:
            server.stop()
            raise
        self._server, self._client = server, client  # `close` saves only if these exist.
        self._saved_at = time.monotonic()

    def round(self) -> None:
        for name, info in self._client.server_info().items():
            limiter = info.rate_limiter_info
            inserted, sampled = limiter.insert_stats.completed, limiter.sample_stats.completed
            self.measure(
                {
                    f"{name}/size": info.current_size,
                    f"{name}/inserted": inserted,
                    f"{name}/sampled": sampled,
                    f"{name}/samples_per_insert": sampled / max(inserted, 1),
                }
            )
        if self.ending and not self._saved_the_end:
            # The tables are saved beside the learner's last checkpoint, not after it: in turn they may take too long.
            self._save()
            self._saved_the_end = True
        elif time.monotonic() - self._saved_at > SAVE_EVERY_S:
            self._save()

    def close(self) -> None:
        if hasattr(self, "_server"):
            if not self._saved_the_end:
                self._save()
            with self.stopwatch("stopping the server"):
                self._server.stop()

    def _save(self) -> None:
        with self.stopwatch("saving the tables"):
            self._client.checkpoint()
        self._saved_at = time.monotonic()


def require_free(port: int) -> None:
    """Raises OSError, naming the port, if something listens there; Reverb itself would only abort."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise OSError(f"port {port} for the replay server is in use") from error
