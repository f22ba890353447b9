"""A client of a replay server, with the methods and the names of Reverb's own, and without TensorFlow."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from boonta.nodes.tables.reverb.library import load

UNLIMITED = -1


class Sample(NamedTuple):
    """An item of a table.

    Attributes:
      key: its key, uint64.
      probability: the probability with which it is drawn.
      table_size: items in the table.
      priority: its priority.
      columns: its data.
    """

    key: np.ndarray
    probability: np.ndarray
    table_size: np.ndarray
    priority: np.ndarray
    columns: list[np.ndarray]


class Sampler:
    """A stream of samples, as `Client.sampler` opens it."""

    def __init__(self, stream: Any):
        self._stream = stream

    def next(self) -> Sample:
        """The next sample; it waits for one that the table doesn't give yet, and for a server that is away.

        Raises:
          RuntimeError: another thread has closed the stream.
        """
        key, probability, table_size, priority, *columns = self._stream.GetNextTrajectory()
        return Sample(key, probability, table_size, priority, columns)

    def close(self) -> None:
        """Ends the stream. Left open, its threads would go on asking for a server that is gone."""
        self._stream.Close()


class Client:
    """What this package uses of a `reverb.Client`.

    Args:
      server_address: as "host:port".
    """

    def __init__(self, server_address: str):
        self.server_address = server_address
        self._client = load().pybind.Client(server_address)

    def trajectory_writer(self, num_keep_alive_refs: int, *, get_signature_timeout_ms: int | None) -> Any:
        """As `reverb.Client.trajectory_writer`."""
        library = load()
        chunks = library.pybind.AutoTunedChunkerOptions(num_keep_alive_refs, 1.0)
        return library.TrajectoryWriter(self._client.NewTrajectoryWriter(chunks, get_signature_timeout_ms))

    def sampler(self, table: str, in_flight: int, number: int = UNLIMITED) -> Sampler:
        """A stream of a table's samples.

        Args:
          table: the table's name.
          in_flight: samples that are fetched ahead.
          number: samples that it draws and no more; by default it is endless.
        """
        return Sampler(self._client.NewSampler(table, number, in_flight))

    def sample(self, table: str, number: int) -> list[Sample]:
        """Draws `number` samples, and waits for them."""
        with contextlib.closing(self.sampler(table, 1, number)) as sampler:
            return [sampler.next() for _ in range(number)]

    def mutate_priorities(self, table: str, updates: Mapping[int, float]) -> None:
        """Gives a table's items new priorities by key; those that it doesn't hold are ignored."""
        self._client.MutatePriorities(table, list(updates.items()), [])

    def server_info(self, timeout_s: float | None = None) -> dict[str, Any]:
        """The settings and counts of each table, as Reverb's message `TableInfo`, by name.

        Args:
          timeout_s: time for the answer, in whole seconds at least; None waits without end.

        Raises:
          RuntimeError: the server has not answered.
        """
        strings = self._client.ServerInfo(0 if timeout_s is None else math.ceil(timeout_s))
        infos = map(load().TableInfo.FromString, strings)
        return {info.name: info for info in infos}

    def poll_info(self, timeout_s: float) -> dict[str, Any] | None:
        """As `server_info`; None if the server hasn't answered within `timeout_s`.

        It listens only once it has loaded its tables, and behind a tunnel a connection may end at any time until then.
        """
        try:
            return self.server_info(timeout_s)
        except RuntimeError:
            return None

    def checkpoint(self) -> str:
        """Has the server save all tables; the path of the checkpoint."""
        return self._client.Checkpoint()
