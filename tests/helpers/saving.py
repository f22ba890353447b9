"""A process that saves checkpoints one after another until it is killed."""

from __future__ import annotations

import itertools
import pathlib
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.snapshots.store import SnapshotFolder


def state(step: int) -> dict[str, Any]:
    """The state of a step: arrays that say which one it is, in files of different lengths."""
    return {name: np.full(size, step, np.int32) for name, size in (("small", 3), ("large", 10_000))}


def save_on(folder: str, progress: Connection) -> None:
    """Resumes, and then saves both parts of a snapshot of every step; sends the number of each that is saved."""
    checkpointer, tables = Checkpointer(pathlib.Path(folder) / "checkpoints"), tables_of(folder)
    _, counts = checkpointer.resume(state(0), whole=True)
    for step in itertools.count(int(counts.get("updates", 0)) + 1):
        checkpointer.save(step, state(step), {"updates": float(step)}, beside="replay")
        with tables.writing(step, replaces=True) as new:
            new.mkdir()
            (new / "table").write_text(str(step))
        progress.send(step)


def tables_of(folder: str) -> SnapshotFolder:
    """The snapshots of tables in a run's folder."""
    return SnapshotFolder(pathlib.Path(folder) / "replay", "snapshot of the tables")
