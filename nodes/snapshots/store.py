"""Numbered snapshots in a folder. Each appears whole or not at all, is verified when read, and the newest few stay.

Newest means the highest number: no clock has a say.
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


def say(warning: str) -> None:
    """Prints a warning; what nodes warn with shows it in the program's own output."""
    print(f"warning: {warning}", file=sys.stderr, flush=True)


class Store:
    """Snapshots in a folder, one writer and any number of readers.

    Args:
      folder: of the snapshots, each a folder called by its number; it is made by the first one that is written.
      what: the word for one in messages.
      keep: how many stay.
    """

    def __init__(self, folder: pathlib.Path, what: str, keep: int = 3):
        self.folder = folder.absolute()
        self._keep = keep
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

    def newest(self, warn: Callable[[str], None] = say) -> int | None:
        """The number of the newest sound snapshot; None if there is no snapshot at all.

        Args:
          warn: called if newer ones were passed over, with their folders and what is wrong with which file.

        Raises:
          Unsound: there are some, but none is sound.
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
        """Yields the path at which the caller makes a snapshot; it counts once the block has ended without an error.

        If there is a sound one of that number, it stays. Those of higher numbers go: nothing was resumed from them.

        Raises:
          OSError: there is no room, or the folder can't be written. The snapshots before are as they were.
        """
        shutil.rmtree(self._scratch, ignore_errors=True)  # What a kill has left may be what fills the disk.
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
        last = max((manifest.size(self.path(number)) for number in numbers(self.folder)[-1:]), default=0)
        if last and (free := shutil.disk_usage(self.folder).free) < last:
            raise OSError(
                f"{self.folder} has {free / 1e6:,.1f} MB free, and the last {self._what} took {last / 1e6:,.1f} MB"
            )

    def _take(self, number: int) -> None:
        """Makes the new snapshot count, unless there is a sound one of its number."""
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
        """Removes those that nobody will resume from: each leaves its place at once, so none is left torn."""
        present = numbers(self.folder)
        kept = [each for each in present if each <= number and each not in self._unsound][-self._keep :]
        for each in set(present) - set(kept):
            self.path(each).rename(self._scratch / f"old-{each}")
        self._unsound.clear()
