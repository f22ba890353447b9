"""The replay server: Reverb tables for the agent's `Table`s, with snapshots in the run's folder."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import time

from boonta.agents.base import Agent
from boonta.envs.base import EnvSpec
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.periodic import Periodic
from boonta.nodes.rpc.wire import host_and_port, require_free
from boonta.nodes.snapshots import manifest, parts
from boonta.nodes.snapshots.store import CHECKPOINTS, KEEP, Retention, SnapshotFolder
from boonta.nodes.tables.division import SERVERS, divided, require_divisible
from boonta.nodes.tables.reverb.server import REMEDY, Server, make_table, require_same, table_info
from boonta.nodes.watch.reporter import MonitorHandle

REVERBS_OWN = "reverb"  # The folder that Reverb itself reads and writes; nothing stays in it.
OVERDUE = 1.5  # Intervals without a request after which the tables are saved anyway.


class Replay(Periodic):
    """Serves the tables, reports their flow, and saves them when a learner saves its checkpoint, under the same number.

    Where no learner asks for it, because it waits for the tables to fill, or because the program has another kind, they
    are saved under the program's number of updates. A program that starts goes on from the newest snapshot that is
    whole, see `SnapshotFolder.newest_whole`; a server that is started again alone takes its own newest.

    A program may have several, each with an equal part of every table, and a folder of its own for its snapshots.

    Args:
      name: name of this node.
      address: where it serves, "host:port".
      agent: the agent with the tables.
      spec: spec of the environment, for the tables' signature.
      folder: folder of the snapshots, for all servers.
      monitor: handle of the monitor.
      beside: the name of the folder beside it with the learner's checkpoints.
      save_every_s: seconds between the learner's.
      retention: which of the learner's stay. Tables stay beside the newest, but not beside those that stay for good.
      shard: number of this server among those of the program.
      shards: how many there are.

    Raises:
      ValueError: the tables can't be divided over `shards` servers.
    """

    role = "replay"
    end_order = 3

    def __init__(
        self,
        name: str,
        address: str,
        agent: Agent,
        spec: EnvSpec,
        folder: str,
        monitor: MonitorHandle | None = None,
        *,
        beside: str = CHECKPOINTS,
        save_every_s: float = 300.0,
        retention: Retention = KEEP,
        shard: int = 0,
        shards: int = 1,
    ):
        super().__init__(name, monitor, every_s=1.0)
        self._address = address
        self._agent = agent
        self._spec = spec
        for table in agent.tables:
            require_divisible(table, shards)
        self._shards = shards
        newest = retention._replace(every_h=None)
        own = pathlib.Path(folder, parts.name(shard, shards))
        self._store = SnapshotFolder(own, "snapshot of the tables", newest)
        self._checkpoints = SnapshotFolder(pathlib.Path(folder).absolute().parent / beside, "checkpoint", retention)
        self._save_every_s = save_every_s
        self._number = 0  # The number of the newest snapshot.
        self._answered = (0, 0)  # The last request that was taken.
        self._saved_the_end = False

    def start(self) -> None:
        _, port = host_and_port(self._address)
        require_free(port, "the replay server")
        signature = step_shapes(self._agent, self._spec)
        tables = [make_table(divided(table, self._shards, SERVERS), signature) for table in self._agent.tables]
        wanted = {each.name: each for each in map(table_info, tables)}
        with self.stopwatch("restoring the tables"):
            self._offer()
            try:
                server = Server(tables, port, self._reverbs_own)
            except ValueError as error:  # A table that was saved is no longer asked for.
                raise ValueError(
                    f"{self._store.folder} holds other tables than {list(wanted)}: {error}. {REMEDY}"
                ) from error
            self._clear_reverbs_own()
        client = server.client()
        try:
            require_same(client.server_info(), wanted, self._store.folder)
        except ValueError:
            server.stop()
            raise
        self._server, self._client = server, client
        self._saved_at = time.monotonic()
        self.on_close(self._stop_server)
        self.on_close(self._save_the_end)

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
        asked = self._take_request()
        if asked is not None:  # Also at the program's end: after the learner's checkpoint there may be no time.
            self._save(asked)
        elif time.monotonic() - self._saved_at > OVERDUE * self._save_every_s and not self.ending:
            self._save_unasked()

    def _save_the_end(self) -> None:
        asked = self._take_request()
        if asked is not None or not self._saved_the_end:
            self._save(self._own_number if asked is None else asked, last=True)

    def _stop_server(self) -> None:
        with self.stopwatch("stopping the server"):
            self._server.stop()

    @property
    def _reverbs_own(self) -> pathlib.Path:
        return self._store.folder / REVERBS_OWN

    def _clear_reverbs_own(self) -> None:
        shutil.rmtree(self._reverbs_own, ignore_errors=True)
        self._reverbs_own.mkdir(parents=True, exist_ok=True)

    def _offer(self) -> None:
        """Puts one snapshot, and nothing else, where Reverb looks for one when it starts.

        Tables fill again, so if there are snapshots and none is sound, a warning does.
        """
        self._clear_reverbs_own()
        try:
            chosen = self._choose()
        except manifest.Unsound as error:
            self.warn(f"the tables start empty: {error}")
            return
        if chosen is not None:
            self._number = chosen
            offered = self._reverbs_own / str(chosen)
            shutil.copytree(self._store.path(chosen), offered, copy_function=os.symlink)

    def _choose(self) -> int | None:
        """The number of the snapshot to load; None for none.

        Raises:
          Unsound: there are snapshots, and none is sound.
        """
        resumed = None
        if not self.past_lives:
            with contextlib.suppress(manifest.Unsound):  # The learner reports it.
                resumed = self._checkpoints.newest_whole(lambda warning: None)
        if resumed is not None:
            with contextlib.suppress(manifest.Unsound):
                self._store.verify(resumed)
                self._store.give_up_above(resumed)
                return resumed
        newest = self._store.newest(self.warn)
        if resumed is not None and newest is not None:
            self.warn(f"the tables are those of update {newest:,}, since none that are sound are of {resumed:,}")
        elif resumed is not None:
            self.warn(
                f"the tables start empty, though the learner goes on from update {resumed:,}: none were saved here"
            )
        return newest

    def _take_request(self) -> int | None:
        """The number under which the tables have been asked for since the last call; None if they have not."""
        request = self.snapshot_request
        if not request[0] or request == self._answered:
            return None
        self._answered = request
        return request[1]

    @property
    def _own_number(self) -> int:
        """The number of a snapshot that nobody asked for: the updates so far, as far as they are known."""
        return max(self._number, int(self.program_counts.get("updates", 0)))

    def _save_unasked(self) -> None:
        """Saves the tables, unless the learner has made no update since its last checkpoint, beside which they are."""
        number = self._own_number
        if not (self._store.path(number).exists() and self._checkpoints.path(number).exists()):
            self._save(number)

    def _save(self, number: int, last: bool = False) -> None:
        """Saves the tables. If they can't be written, they may be later, unless the program ends."""
        last = last or self.ending
        with self.stopwatch("saving the tables"):
            try:
                self._take_checkpoint(number)
            except (OSError, RuntimeError) as error:  # Reverb raises the latter.
                if last:
                    raise
                self.warn(f"the tables could not be saved: {error}; it is tried again")
        self._saved_at = time.monotonic()
        self._saved_the_end = self._saved_the_end or last

    def _take_checkpoint(self, number: int) -> None:
        """Has Reverb write a checkpoint, and takes it over as a snapshot.

        Reverb names checkpoints by the local time, and keeps the one whose name is last. Older ones are removed
        first, so that it never deletes the one that it has just written.
        """
        self._clear_reverbs_own()
        try:
            with self._store.writing(number, replaces=True) as folder:
                pathlib.Path(self._client.checkpoint()).rename(folder)
        except BaseException:  # An incomplete one may fill the disk, and then the learner couldn't save.
            shutil.rmtree(self._reverbs_own, ignore_errors=True)
            raise
        self._number = number
