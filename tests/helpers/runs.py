"""Reads the results in a run's folder."""

from __future__ import annotations

import json
import pathlib

import numpy as np

from boonta.nodes import metrics
from boonta.nodes.watch.status import STATUS
from boonta.programs.reports.meanings import found


def saved(workdir: pathlib.Path) -> int:
    """Returns the number of updates of the newest checkpoint, or 0 if there is none."""
    names = [path.name for path in (workdir / "checkpoints").glob("*") if path.name.isdigit()]
    return max(map(int, names), default=0)


def processes(workdir: pathlib.Path) -> dict[str, int]:
    """Returns the id of each node's process, as the monitor has last saved it."""
    file = workdir / STATUS
    nodes = json.loads(file.read_text())["nodes"] if file.exists() else {}
    return {name: int(node["process"].rpartition("/")[2]) for name, node in nodes.items()}


def end(folder: pathlib.Path) -> tuple[int, np.ndarray]:
    """Returns the number of updates of a host of `unit_program.py` that has ended once, and its final params."""
    (path,) = folder.glob("end-*.npy")
    return int(path.stem.removeprefix("end-")), np.load(path)


def undeclared(workdir: pathlib.Path) -> set[str]:
    """Returns the names in a run's rows that no declaration of a metric is about."""
    return {name for row in metrics.read(workdir) for name in row if not found(name)}
