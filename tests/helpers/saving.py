"""A process that saves checkpoints one after another until it is killed."""

from __future__ import annotations

import itertools
import pathlib
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from boonta.nodes.checkpoint import Checkpointer


def state(step: int) -> dict[str, Any]:
    """The state of a step: arrays that say which one it is, in files of different lengths."""
    return {name: np.full(size, step, np.int32) for name, size in (("small", 3), ("large", 10_000))}


def save_on(folder: str, said: Connection) -> None:
    """Resumes, and then saves a checkpoint of every step; sends the number of each that is saved."""
    checkpointer = Checkpointer(pathlib.Path(folder))
    _, counts = checkpointer.resume(state(0))
    for step in itertools.count(int(counts.get("updates", 0)) + 1):
        checkpointer.save(step, state(step), {"updates": float(step)})
        said.send(step)
