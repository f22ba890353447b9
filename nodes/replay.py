"""The replay server: Reverb tables for the agent's `Table`s, with snapshots in the run's folder.

Reverb, and with it TensorFlow, is imported only where tables are made, since launchers import this module, too.
"""

from __future__ import annotations

from boonta.agents import rlax_first  # noqa: F401

# isort: split

import os
import pathlib
import shutil
import socket
import time
from collections.abc import Sequence
from typing import Any

import psutil

from boonta.agents.base import Agent, Steps, Table
from boonta.envs.base import EnvSpec
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.periodic import Periodic
from boonta.nodes.snapshots import manifest
from boonta.nodes.snapshots.store import SnapshotFolder
from boonta.nodes.tables import contract
from boonta.nodes.tables.reverb.server import make_table, require_same

REVERBS_OWN = "reverb"  # The folder that Reverb itself reads and writes; nothing stays in it.
KEEP = 2


class Replay(Periodic):
    """Serves the tables, reports their flow, and saves them at an interval and at the end.

    Args:
      name: name of this node.
      address: address to serve on; its `resolve()` returns "host:port" once the launcher has bound it.
      agent: the agent with the tables.
      spec: spec of the environment, for the tables' signature.
      folder: folder of the snapshots; the newest sound one found there is loaded.
      monitor: handle of the monitor.
      save_every_s: seconds between snapshots.
    """

    role = "replay"
    serves = True

    def __init__(
        self,
        name: str,
        address: Any,
        agent: Agent,
        spec: EnvSpec,
        folder: str,
        monitor: Any = None,
        *,
        save_every_s: float = 300.0,
    ):
        super().__init__(name, monitor, every_s=1.0)
        self._address = address
        self._agent = agent
        self._spec = spec
        self._store = SnapshotFolder(pathlib.Path(folder), "snapshot of the tables", KEEP)
        self._save_every_s = save_every_s
        self._saved_the_end = False

    def start(self) -> None:
        import reverb

        port = int(self._address.resolve().rpartition(":")[2])
        require_free(port, "the replay server")
        signature = step_shapes(self._agent, self._spec)
        self.warn(memory_warning(self._agent.tables, signature, psutil.virtual_memory().available))
        tables = [make_table(table, signature) for table in self._agent.tables]
        wanted = {table.name: table.info for table in tables}
        with self.stopwatch("restoring the tables"):
            self._offer_newest()
            server = reverb.Server(tables, port, reverb.checkpointers.DefaultCheckpointer(str(self._reverbs_own)))
            self._clear_reverbs_own()
        client = server.localhost_client()
        try:
            require_same(client.server_info(), wanted, self._store.folder)
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
            self._save(last=True)
        elif time.monotonic() - self._saved_at > self._save_every_s:
            self._save()

    def close(self) -> None:
        if hasattr(self, "_server"):
            if not self._saved_the_end:
                self._save(last=True)
            with self.stopwatch("stopping the server"):
                self._server.stop()

    @property
    def _reverbs_own(self) -> pathlib.Path:
        return self._store.folder / REVERBS_OWN

    def _clear_reverbs_own(self) -> None:
        shutil.rmtree(self._reverbs_own, ignore_errors=True)
        self._reverbs_own.mkdir(parents=True, exist_ok=True)

    def _offer_newest(self) -> None:
        """Puts the newest sound snapshot, and nothing else, where Reverb looks for one when it starts.

        Tables fill again, so if there are snapshots and none is sound, a warning does.
        """
        self._clear_reverbs_own()
        try:
            newest = self._store.newest(self.warn)
        except manifest.Unsound as error:
            self.warn(f"the tables start empty: {error}")
            return
        if newest is not None:
            offered = self._reverbs_own / str(newest)
            shutil.copytree(self._store.path(newest), offered, copy_function=os.symlink)

    def _save(self, last: bool = False) -> None:
        """Saves the tables. If they can't be written, they may be later, unless this is the last time."""
        with self.stopwatch("saving the tables"):
            try:
                self._take_checkpoint()
            except (OSError, RuntimeError) as error:  # Reverb raises the latter.
                if last:
                    raise
                self.warn(f"the tables could not be saved: {error}; the next save is in {self._save_every_s:.0f} s")
        self._saved_at = time.monotonic()
        self._saved_the_end = self._saved_the_end or last

    def _take_checkpoint(self) -> None:
        """Has Reverb write a checkpoint, and takes it over as a snapshot.

        Reverb names checkpoints by the local time, and keeps the one whose name is last. So that it never deletes one
        that it has just written, none is left to it.
        """
        self._clear_reverbs_own()
        with self._store.writing(self._store.next) as folder:
            pathlib.Path(self._client.checkpoint()).rename(folder)


def require_free(port: int, who: str) -> None:
    """Raises OSError, naming the port, if something listens there; Reverb itself would only abort."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # One that has just ended is not in the way.
        try:
            probe.bind(("", port))
        except OSError as error:
            raise OSError(f"port {port} for {who} is in use") from error


def memory_warning(tables: Sequence[Table], step: Steps, free: int) -> str:
    """A warning if full tables may not fit into memory; empty if they do.

    Args:
      tables: the tables of a server.
      step: shapes and dtypes of one raw step.
      free: bytes of memory that are free.
    """
    full = {table.name: contract.bytes_when_full(table, step) for table in tables}
    if sum(full.values()) <= free:
        return ""
    sizes = ", ".join(f"{name} {size / 1e9:,.1f} GB" for name, size in full.items())
    return (
        f"full tables take up to {sizes} before compression, and {free / 1e9:,.1f} GB of memory are free: if this run "
        "ends for lack of memory, choose a smaller size of the replay"
    )
