"""Where metrics go: JSON lines for programs, TensorBoard events for people."""

from __future__ import annotations

import contextlib
import json
import math
import pathlib
from collections.abc import Mapping

import tensorboardX

FILE = "metrics.jsonl"
MEMBERS = "members.jsonl"  # a population's, of each member


class Rows:
    """Appends rows of scalars to a file of JSON lines, which `read` reads.

    Args:
      path: the file; made if missing, and its folder.
    """

    def __init__(self, path: pathlib.Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lines = open(path, "a", buffering=1)  # noqa: SIM115  # closed in close()
        if self._lines.tell():
            self._lines.write("\n")  # the run's earlier part may have been killed within a row

    def write(self, row: Mapping[str, float]) -> dict[str, float | None]:
        """Writes one row, and returns it as written: what isn't finite is None, null in JSON."""
        clean = {name: value if math.isfinite(value) else None for name, value in row.items()}
        self._lines.write(json.dumps(clean) + "\n")
        return clean

    def close(self) -> None:
        self._lines.close()


class MetricsWriter:
    """Appends rows of scalars to `metrics.jsonl` and to TensorBoard events in the run's folder.

    Args:
      folder: the run's; made if missing.
    """

    def __init__(self, folder: pathlib.Path):
        self._rows = Rows(folder / FILE)
        self._events = tensorboardX.SummaryWriter(str(folder / "tensorboard"))

    def write(self, row: dict[str, float], env_steps: int) -> None:
        """Writes one row; what isn't finite is left out of TensorBoard and null in JSON."""
        for name, value in self._rows.write(row).items():
            if value is not None:
                self._events.add_scalar(name, value, env_steps)

    def close(self) -> None:
        self._rows.close()
        self._events.close()


def read(folder: pathlib.Path, file: str = FILE) -> list[dict[str, float]]:
    """The rows of a run, oldest first, without one that a kill cut short."""
    rows = []
    with open(folder / file) as lines:
        for line in lines:
            with contextlib.suppress(json.JSONDecodeError):
                rows.append(json.loads(line))
    return rows
