"""The newest snapshot of a run, for its display."""

from __future__ import annotations

import pathlib
import time
from typing import Any

from boonta.nodes.snapshots import manifest
from boonta.nodes.snapshots.parts import parts_of
from boonta.nodes.snapshots.store import LEARNERS, numbers

LOOK_S = 5.0  # Time between two looks at the disk.


class Newest:
    """Finds the newest whole snapshot of a run by its manifests; the files themselves are verified when it is restored.

    Args:
      folder: the run's folder.
    """

    def __init__(self, folder: pathlib.Path):
        self._folder = folder
        self._looked_at = float("-inf")
        self._found: tuple[int, int, float] | None = None  # Number, bytes, and time of its end.

    def look(self) -> None:
        """Looks at the disk again, unless the last look was a moment ago."""
        if time.monotonic() - self._looked_at > LOOK_S:
            self._looked_at = time.monotonic()
            self._found = max(filter(None, map(self._find, LEARNERS)), default=None)

    @property
    def snapshot(self) -> dict[str, Any] | None:
        """The "number", "age_s" and "mb" of the newest snapshot, as of the last look; None if there is none."""
        if self._found is None:
            return None
        number, size, written_at = self._found
        return {"number": number, "age_s": max(0.0, time.time() - written_at), "mb": size / 1e6}

    def _find(self, name: str) -> tuple[int, int, float] | None:
        for number in reversed(numbers(self._folder / name)):
            parts = [self._folder / name / str(number)]
            if beside := manifest.beside(parts[0]):
                parts += [part / str(number) for part in parts_of(self._folder / beside, number)]
            times = [manifest.written_at(part) for part in parts]
            if all(at is not None for at in times):
                return number, sum(map(manifest.size, parts)), max(at for at in times if at is not None)
        return None
