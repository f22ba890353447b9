"""The monitor's status as a file of the run's folder, which shows what it knew of each node a second ago."""

from __future__ import annotations

import contextlib
import pathlib
import time
from typing import Any

from boonta.nodes.metrics import finite
from boonta.nodes.snapshots import files

STATUS = "status.json"  # The file's name; `boonta report` reads it.


def write_status(folder: pathlib.Path, status: dict[str, Any]) -> None:
    """Writes the monitor's status into a run's folder; not if there is no room: the next one comes in a second."""
    shown = {**status, "row": finite(status["row"]), "totals": finite(status["totals"]), "at": time.time()}
    with contextlib.suppress(OSError):
        files.write_json(folder / STATUS, shown, synced=False)
