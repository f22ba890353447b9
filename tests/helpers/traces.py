"""Reads the traces of JAX's profiler."""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any


def events(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The events of the one trace in a folder, where TensorBoard's plugin and Perfetto look for it, in their order."""
    (trace,) = folder.glob("plugins/profile/*/*.trace.json.gz")
    (plane,) = trace.parent.glob("*.xplane.pb")
    assert plane.stat().st_size
    found = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    return sorted((event for event in found if event.get("ph") == "X"), key=lambda event: event["ts"])


def updates(folder: pathlib.Path) -> list[int]:
    """The updates that were made before each dispatch in the trace."""
    return [int(event["args"]["step_num"]) for event in events(folder) if event["name"] == "update"]
