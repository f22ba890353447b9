"""Sinks as a user may have them; what they take is in the file `taken` of the run's folder."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import threading
from collections.abc import Mapping

from boonta.nodes import metrics
from boonta.nodes.sinks.base import TrackedRun

SERVER = "BOONTA_TEST_SERVER"  # The port of a server that `Recording` must reach, if it is set.


class Recording:
    """Writes down all that it is told."""

    def begin(self, run: TrackedRun) -> None:
        if SERVER in os.environ:
            socket.create_connection(("127.0.0.1", int(os.environ[SERVER])), timeout=10).close()
        self._path = run.folder / "taken"
        self._note("begin", run.id, run.rows, run.group, run.config.get("seed"))

    def write(self, row: Mapping[str, float]) -> None:
        self._note("row", dict(row))

    def video(self, path: pathlib.Path, env_steps: int) -> None:
        self._note("video", path.name, env_steps)

    def close(self) -> None:
        self._note("close")

    def _note(self, *words: object) -> None:
        with open(self._path, "a") as file:
            file.write(json.dumps(words) + "\n")


class Hanging(Recording):
    """A server that takes a call, and never answers."""

    def write(self, row: Mapping[str, float]) -> None:
        super().write(row)
        threading.Event().wait()


class Crashing(Recording):
    """A library that ends the process."""

    def write(self, row: Mapping[str, float]) -> None:
        os._exit(7)


def taken(folder: pathlib.Path, what: str) -> list[list]:
    """What a sink has noted of this kind, without the kind."""
    with open(folder / "taken") as file:
        return [note[1:] for note in map(json.loads, file) if note[0] == what]


def write_rows(folder: pathlib.Path, *rows: Mapping[str, float]) -> None:
    """Appends rows to a run's metrics."""
    log = metrics.Rows(folder / metrics.FILE, print)
    for row in rows:
        log.write(row)
    log.close()
