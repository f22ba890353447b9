"""Numbered snapshots in a folder. Each appears whole or not at all, is verified when read, and the newest few stay.

The newest snapshot is the one with the highest number, whatever its time. Only the choice of older ones to keep uses
times.

A program's snapshot may have several parts, in folders beside each other and under one number: the learner's checkpoint
and the tables of each replay server. The checkpoint's manifest names the folder of the tables, see
`nodes.snapshots.parts`; the snapshot is whole if all parts are sound.
"""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from boonta.nodes.snapshots import files, manifest, parts
from boonta.nodes.snapshots.manifest import Unsound

SCRATCH = "unfinished"  # The folder of snapshots that are being written or removed.
# A run's folders of snapshots: of a learner, of a population, and of tables, which have the numbers of the checkpoints.
CHECKPOINTS, MEMBERS, TABLES = "checkpoints", "members", "replay"
LEARNERS = (CHECKPOINTS, MEMBERS)  # A run goes on from a snapshot in one of these.
SMALL = 100_000_000  # Bytes of a snapshot that is read within a second.
BEST = "best"  # The folder, within that of the checkpoints, of the one with the best evaluation.


class Retention(NamedTuple):
    """Which snapshots stay.

    Attributes:
      newest: number of newest snapshots.
      every_h: hours between older ones that stay for good, the first one among them; None keeps none.
    """

    newest: int = 3
    every_h: float | None = None


KEEP = Retention()


def numbers(folder: pathlib.Path) -> list[int]:
    """The numbers of the snapshots in a folder, sound or not, the lowest first."""
    names = [path.name for path in folder.glob("*") if path.name.isascii() and path.name.isdecimal()]
    return sorted(int(name) for name in names if name == str(int(name)))


def has_snapshots(workdir: pathlib.Path) -> bool:
    """Whether a run's folder has snapshots of its learner or its members, sound or not."""
    return any(numbers(workdir / name) for name in LEARNERS)


def one_of(path: pathlib.Path) -> tuple[pathlib.Path, int | None]:
    """A folder of snapshots and the number of one of them, from the path of that one; None from that of the folder."""
    is_one = path.name.isdecimal() and path.parent.name in (*LEARNERS, BEST)
    return (path.parent, int(path.name)) if is_one else (path, None)


def glance(path: pathlib.Path) -> tuple[int | None, str]:
    """Looks for the newest sound snapshot within a second: large ones are judged by their files' sizes.

    Args:
      path: the folder of the snapshots; or that of one of them, the only one that is looked at.

    Returns:
      Its number, or None and what is wrong with the newest of all; None and nothing if there is no snapshot.
    """
    fault = ""
    folder, one = one_of(path)
    for number in reversed(numbers(folder)) if one is None else (one,):
        path = folder / str(number)
        try:
            _verify_quickly(path, number)
            return number, ""
        except Unsound as error:
            fault = fault or f"{path}: {error}"
    return None, fault


def _verify_quickly(path: pathlib.Path, number: int) -> None:
    """Raises Unsound as `manifest.verify`, but judges large snapshots by their files' sizes."""
    manifest.verify(path, number, content=manifest.size(path) <= SMALL)


def print_warning(warning: str) -> None:
    """Prints a warning for tools; nodes give the store their own `warn` instead."""
    print(f"warning: {warning}", file=sys.stderr, flush=True)


class SnapshotFolder:
    """Snapshots in a folder, one writer and any number of readers.

    Args:
      folder: folder of the snapshots, each of which is a folder named by its number; the first save makes it.
      what: the word for a snapshot in messages.
      retention: which of them stay.
    """

    def __init__(self, folder: pathlib.Path, what: str, retention: Retention = KEEP):
        self.folder = folder.absolute()
        self._retention = retention
        self._what = what
        self._scratch = self.folder / SCRATCH
        self._useless: set[int] = set()  # Numbers of damaged snapshots, and of those above the one that was resumed.

    def path(self, number: int) -> pathlib.Path:
        """The folder of a snapshot."""
        return self.folder / str(number)

    @property
    def new(self) -> pathlib.Path:
        """The path at which a new snapshot is made, within a `writing` block."""
        return self._scratch / "new"

    def newest(self, warn: Callable[[str], None] = print_warning) -> int | None:
        """The number of the newest sound snapshot; None if there is no snapshot at all.

        Args:
          warn: called with the faults of newer snapshots, if there are any: their folders, files and what is wrong.

        Raises:
          Unsound: there are snapshots, but none is sound.
        """
        return self._newest(numbers(self.folder), self._fault, warn)

    def newest_whole(self, warn: Callable[[str], None] = print_warning) -> int | None:
        """The number from which a program goes on: that of the newest whole snapshot, if it is among the newest kept.

        If none of these is whole, it is the newest sound one. A snapshot without another part is whole by itself; so it
        is if all other parts are on another machine's disk. Large tables are judged by their files' sizes: the learner
        and all replay servers ask at each start, and each server reads its own.

        Args, raises: as `newest`.
        """
        faults: dict[int, str] = {}

        def fault(number: int) -> str:
            return faults.setdefault(number, self._fault_of_whole(number))

        try:
            return self._newest(numbers(self.folder)[-self._retention.newest :], fault, warn)
        except Unsound:
            number = self.newest(warn)
        if number in faults:
            warn(f"{self._what} {number} is used alone, since none of the newest is whole: {faults[number]}")
        return number

    def verify(self, number: int) -> None:
        """Raises Unsound if a snapshot is torn or altered, or isn't there."""
        manifest.verify(self.path(number), number)

    def sound(self, number: int) -> int:
        """Returns the number of a snapshot; raises Unsound, with its path, if it is torn or altered, or isn't there."""
        if fault := self._fault(number):
            raise Unsound(f"{self._what} {self.path(number)} is not sound: {fault}")
        return number

    def give_up_above(self, number: int) -> None:
        """Marks the snapshots above a number, from which the run doesn't go on: the next save removes them."""
        self._useless = {each for each in numbers(self.folder) if each > number}

    def _newest(self, present: list[int], fault: Callable[[int], str], warn: Callable[[str], None]) -> int | None:
        """The highest number without a fault; see `newest`."""
        wrong = []
        for number in reversed(present):
            if found := fault(number):
                wrong.append(f"{self.path(number)}: {found}")
                continue
            self._useless = {each for each in present if each > number}
            if wrong:
                warn(f"{self._what} {number} is used, since newer ones are not sound: {'; '.join(wrong)}")
            return number
        self._useless = set(present)
        if wrong:
            raise Unsound(f"no {self._what} in {self.folder} is sound: {'; '.join(wrong)}")
        return None

    def _fault(self, number: int) -> str:
        """What is wrong with a snapshot; empty if it is sound."""
        try:
            self.verify(number)
        except Unsound as error:
            return str(error)
        return ""

    def _fault_of_whole(self, number: int) -> str:
        """What is wrong with a snapshot or one of its other parts; empty if it is whole."""
        beside = manifest.beside(self.path(number))
        fault = self._fault(number)
        if fault or not beside:
            return fault
        for part in parts.parts_of(self.folder.parent / beside, number):
            try:
                if numbers(part):
                    _verify_quickly(part / str(number), number)
            except Unsound as error:
                return f"{part / str(number)}: {error}"
        return ""

    @contextlib.contextmanager
    def writing(
        self, number: int, beside: str = "", replaces: bool = False, expected: int = 0
    ) -> Iterator[pathlib.Path]:
        """Yields the path at which the caller makes a snapshot, which is taken if the block ends without an error.

        Higher numbers are removed: the run was not resumed there.

        Args:
          number: the snapshot's number.
          beside: the name of the folder in which its other part is saved.
          replaces: whether it replaces a sound one of the same number.
          expected: the bytes that it may take; unused where there is an older one, whose size is expected.

        Raises:
          OSError: there is no room, or the folder can't be written. The snapshots before are as they were.
        """
        shutil.rmtree(self._scratch, ignore_errors=True)  # The rest of a killed save may fill the disk.
        self._require_room(expected)
        self._scratch.mkdir(parents=True)
        try:
            yield self.new
            manifest.write(self.new, number, beside)
            self._take(number, replaces)
            self._prune(number)
        except Exception as error:
            if files.FULL in str(error) or not files.is_full(error):
                raise
            raise OSError(files.fullness(self.folder, error)) from error
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _require_room(self, expected: int) -> None:
        present = numbers(self.folder)
        last = manifest.size(self.path(present[-1])) if present else 0
        self.folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.folder).free
        if free < (last or expected):
            need = f"the last {self._what} took" if last else f"this {self._what} may take"
            taken = f"{(last or expected) / 1e6:,.1f} MB"
            raise OSError(f"{self.folder} has {free / 1e6:,.1f} MB free, and {need} {taken}: {files.FULL}")

    def _take(self, number: int, replaces: bool) -> None:
        """Moves the new snapshot to its place, unless there is a sound one of the same number that stays."""
        target = self.path(number)
        if target.exists():
            if not (replaces or number in self._useless or self._fault(number)):
                return
            target.rename(self._scratch / f"old-{number}")
        self._useless.discard(number)
        self.new.rename(target)
        files.sync(self.folder)

    def _prune(self, number: int) -> None:
        """Removes the snapshots that are not needed. Each is renamed first, so that a kill leaves none torn."""
        present = numbers(self.folder)
        sound = [each for each in present if each <= number and each not in self._useless]
        for each in set(present) - set(sound[-self._retention.newest :]) - self._for_good(sound):
            self.path(each).rename(self._scratch / f"old-{each}")
        self._useless.clear()

    def _for_good(self, sound: list[int]) -> set[int]:
        """The snapshots that stay for good: each was finished at least `every_h` hours after the one before it."""
        kept: set[int] = set()
        last = float("-inf")
        if self._retention.every_h is None:
            return kept
        for each in sound:
            finished = manifest.written_at(self.path(each))
            if finished is not None and finished - last >= 3_600 * self._retention.every_h:
                kept.add(each)
                last = finished
        return kept
