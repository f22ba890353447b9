"""The replay server: Reverb tables as the agent's `Table`s describe them, checkpointed in the run's folder.

Reverb, and with it TensorFlow, is imported where tables are made: a launcher only says that there shall be some.
"""

from __future__ import annotations

from boonta.agents import rlax_first  # noqa: F401

# isort: split

import pathlib
import socket
import time
from typing import TYPE_CHECKING, Any

import jax
import tree

from boonta.agents.base import Agent, Table, owed_bounds
from boonta.envs.base import EnvSpec
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.base import Periodic

if TYPE_CHECKING:
    import reverb
    from reverb.reverb_types import TableInfo

SAVE_EVERY_S = 600.0


class Replay(Periodic):
    """Serves the tables, reports their flow, and saves them now and then and when it ends.

    Args:
      name: of this node.
      address: to serve on; its `resolve()` gives "host:port" once the launcher has bound it.
      agent: whose tables these are.
      spec: of the environment, for the tables' signature.
      folder: for checkpoints; one found there is loaded.
      monitor: handle.
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
        self._server, self._client = server, client  # from here on there is something to save
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
            # Beside the learner's last save, not after it: together they may take longer than there is.
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


def make_table(table: Table, signature: Any) -> reverb.Table:
    """The Reverb table for a `Table`.

    Args:
      table: the contract.
      signature: shapes of one raw step, as `Steps`.
    """
    import reverb
    import tensorflow as tf

    sequence = jax.tree.map(
        lambda leaf: tf.TensorSpec((table.sequence_length, *leaf.shape), tf.as_dtype(leaf.dtype)), signature
    )
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
    """Holds a replay table's `samples_per_insert`, within `owed_bounds`."""
    import reverb

    if table.samples_per_insert is None:
        return reverb.rate_limiters.MinSize(table.min_size)
    return reverb.rate_limiters.SampleToInsertRatio(table.samples_per_insert, table.min_size, owed_bounds(table))


def require_same(restored: dict[str, TableInfo], wanted: dict[str, TableInfo], folder: pathlib.Path) -> None:
    """Raises ValueError if tables restored from a checkpoint differ from those asked for.

    Reverb restores a table with the options that it was saved with, whatever the new one's are. Its sequences can't be
    carried over, and whether they may be lost is for the user to say.
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
            "/".join(map(str, path)): f"{leaf.dtype.name}{leaf.shape.as_list()}"
            for path, leaf in tree.flatten_with_path(info.signature)
        },
    }


def require_free(port: int) -> None:
    """Raises OSError, naming the port, if something listens there; Reverb itself would only abort."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise OSError(f"port {port} for the replay server is in use") from error
