"""Numbered snapshots in a folder. Each appears whole or not at all, is verified when read, and the newest few stay.

Newest means the highest number: no clock has a say. A clock only decides which of the older ones stay for good.
"""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator

from boonta.nodes.snapshots import files, manifest
from boonta.nodes.snapshots.manifest import Unsound

SCRATCH = "unfinished"  # The folder of what is being written or removed.


def numbers(folder: pathlib.Path) -> list[int]:
    """The numbers of the snapshots in a folder, sound or not, the lowest first."""
    names = [path.name for path in folder.glob("*") if path.name.isascii() and path.name.isdecimal()]
    return sorted(int(name) for name in names if name == str(int(name)))


def print_warning(warning: str) -> None:
    """Prints a warning for tools; nodes give the store their own `warn` instead."""
    print(f"warning: {warning}", file=sys.stderr, flush=True)


class SnapshotFolder:
    """Snapshots in a folder, one writer and any number of readers.

    Args:
      folder: folder of the snapshots, each of which is a folder named by its number; the first save makes it.
      what: the word for a snapshot in messages.
      keep: number of newest snapshots to keep.
      keep_every_h: hours between older snapshots that stay for good, the first one among them; None keeps none.
    """

    def __init__(self, folder: pathlib.Path, what: str, keep: int = 3, keep_every_h: float | None = None):
        self.folder = folder.absolute()
        self._keep = keep
        self._keep_every_h = keep_every_h
        self._what = what
        self._scratch = self.folder / SCRATCH
        self._unsound: set[int] = set()

    def path(self, number: int) -> pathlib.Path:
        """The folder of a snapshot."""
        return self.folder / str(number)

    @property
    def next(self) -> int:
        """A number above that of every snapshot there is."""
        return max(numbers(self.folder), default=0) + 1

    @property
    def new(self) -> pathlib.Path:
        """Where a new snapshot is made, within a `writing`."""
        return self._scratch / "new"

    def newest(self, warn: Callable[[str], None] = print_warning) -> int | None:
        """The number of the newest sound snapshot; None if there is no snapshot at all.

        Args:
          warn: called with the faults of newer snapshots, if there are any: their folders, files and what is wrong.

        Raises:
          Unsound: there are snapshots, but none is sound.
        """
        wrong = []
        for number in reversed(numbers(self.folder)):
            try:
                manifest.verify(self.path(number), number)
            except Unsound as error:
                self._unsound.add(number)
                wrong.append(f"{self.path(number)}: {error}")
                continue
            self._unsound.discard(number)
            if wrong:
                warn(f"{self._what} {number} is used, since newer ones are not sound: {'; '.join(wrong)}")
            return number
        if wrong:
            raise Unsound(f"no {self._what} in {self.folder} is sound: {'; '.join(wrong)}")
        return None

    @contextlib.contextmanager
    def writing(self, number: int) -> Iterator[pathlib.Path]:
        """Yields the path at which the caller makes a snapshot, which counts once the block has ended without an error.

        A sound snapshot of the same number stays instead. Higher numbers are removed: the run was not resumed there.

        Raises:
          OSError: there is no room, or the folder can't be written. The snapshots before are as they were.
        """
        shutil.rmtree(self._scratch, ignore_errors=True)  # The rest of a killed save may fill the disk.
        self._require_room()
        self._scratch.mkdir(parents=True)
        try:
            yield self.new
            manifest.write(self.new, number)
            self._take(number)
            self._prune(number)
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _require_room(self) -> None:
        present = numbers(self.folder)
        last = manifest.size(self.path(present[-1])) if present else 0
        if last and (free := shutil.disk_usage(self.folder).free) < last:
            raise OSError(
                f"{self.folder} has {free / 1e6:,.1f} MB free, and the last {self._what} took {last / 1e6:,.1f} MB"
            )

    def _take(self, number: int) -> None:
        """Makes the new snapshot count, unless there is a sound one of the same number."""
        target = self.path(number)
        self._unsound.discard(number)
        if target.exists():
            try:
                manifest.verify(target, number)
            except Unsound:
                target.rename(self._scratch / f"old-{number}")
            else:
                return
        self.new.rename(target)
        files.sync(self.folder)

    def _prune(self, number: int) -> None:
        """Removes the snapshots that are not needed. Each is renamed first, so that a kill leaves none torn."""
        present = numbers(self.folder)
        sound = [each for each in present if each <= number and each not in self._unsound]
        for each in set(present) - set(sound[-self._keep :]) - self._for_good(sound):
            self.path(each).rename(self._scratch / f"old-{each}")
        self._unsound.clear()

    def _for_good(self, sound: list[int]) -> set[int]:
        """The snapshots that were written so many hours after the one before them in this set."""
        kept: set[int] = set()
        last = float("-inf")
        if self._keep_every_h is None:
            return kept
        for each in sound:
            written = manifest.written_at(self.path(each))
            if written is not None and written - last >= 3_600 * self._keep_every_h:
                kept.add(each)
                last = written
        return kept
