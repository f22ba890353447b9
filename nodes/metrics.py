"""Files of metrics: how their rows are written, and read."""

from __future__ import annotations

import io
import json
import math
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping

from boonta.nodes.snapshots import files

FILE = "metrics.jsonl"
MEMBERS = "members.jsonl"  # The metrics of each member of a population.


def has_counted(row: Mapping[str, float | None]) -> bool:
    """Whether anything has been counted in a row, or in a program's totals."""
    return any(row.get(name) for name in ("env_steps", "updates"))


def step_of(row: Mapping[str, float | None]) -> tuple[str, int]:
    """The counter that orders a run's rows, by name, and its value: env steps, or updates where none are counted.

    A program that learns from an archive alone counts no env steps.
    """
    name = "updates" if row.get("updates") and not row.get("env_steps") else "env_steps"
    return name, int(row.get(name) or 0)


class Appended:
    """A file that grows by whole pieces; what a full disk has no room for waits in memory, and loses nothing.

    Args:
      path: the file; made if missing, and its folder.
      warn: called with a message where pieces have to wait.
    """

    def __init__(self, path: pathlib.Path, warn: Callable[[str], None]):
        self._path = path
        self._warn = warn
        self._file: io.FileIO | None = None  # Unbuffered: a buffer would write the start of a piece twice.
        self._waiting = b""

    def append(self, piece: bytes) -> None:
        """Appends a piece, after those that wait."""
        self._waiting += piece
        try:
            self._write()
        except OSError as error:
            why = files.fullness(self._path, error)
            self._warn(f"{self._path} can't be written: {why}; what belongs there is kept until it can")

    def close(self) -> None:
        """Writes what waits, and closes the file.

        Raises:
          OSError: it can't be written, and is lost.
        """
        try:
            self._write()
        except OSError as error:
            why = files.fullness(self._path, error)
            lost = f"the last {len(self._waiting):,} bytes that belong there are lost, what is there is kept"
            raise OSError(f"{self._path} can't be written: {why}; {lost}") from error
        finally:
            if self._file is not None:
                self._file.close()

    def _write(self) -> None:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115  # closed in close()
        while self._waiting:
            self._waiting = self._waiting[self._file.write(self._waiting) :]


def ends_within_a_line(path: pathlib.Path) -> bool:
    """Whether a file's last line lacks its end; False for one that is missing or empty."""
    if not path.exists() or not path.stat().st_size:
        return False
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def finite(row: Mapping[str, float]) -> dict[str, float | None]:
    """A row for JSON, which has no NaN: values that aren't finite are None."""
    return {name: value if math.isfinite(value) else None for name, value in row.items()}


class Rows:
    """Appends rows of scalars to a file of JSON lines, which `read` reads.

    Args:
      path: the file; made if missing, and its folder.
      warn: called with a message where rows have to wait for room on the disk.
    """

    def __init__(self, path: pathlib.Path, warn: Callable[[str], None]):
        self._lines = Appended(path, warn)
        if ends_within_a_line(path):  # The run's earlier part was killed within a row.
            self._lines.append(b"\n")

    def write(self, row: Mapping[str, float]) -> dict[str, float | None]:
        """Writes one row, and returns it as written: values that aren't finite are None, null in JSON."""
        clean = finite(row)
        self._lines.append(json.dumps(clean).encode() + b"\n")
        return clean

    def close(self) -> None:
        self._lines.close()


def each(folder: pathlib.Path, file: str = FILE) -> Iterator[dict[str, float | None]]:
    """The rows that `read` returns, one by one: those of a week would take gigabytes at once.

    Raises:
      OSError: the file can't be read.
    """
    from boonta.nodes.snapshots import schema  # Only tools read metrics; nodes need not load pydantic, of 8 MB.

    return (row for _, row in schema.each_line(schema.ROW, folder / file) if row is not None)


def read(folder: pathlib.Path, file: str = FILE) -> list[dict[str, float | None]]:
    """The rows of a run, oldest first, without malformed ones, such as one that a kill cut short.

    Raises:
      OSError: the file can't be read.
    """
    return list(each(folder, file))
