"""The manifest of a snapshot: its number, its time, and the size and SHA-256 of each of its files.

The manifest is the last file that is written. A snapshot without a valid one was never finished.
"""

from __future__ import annotations

import dataclasses
import pathlib
import stat
import time
from typing import Annotated

import pydantic

from boonta.nodes.snapshots import files, schema

NAME = "MANIFEST.json"


def _require_inside(name: str) -> str:
    """Refuses a file's name that could lead out of the folder."""
    if not name.isprintable() or name.startswith("/") or ".." in name.split("/"):
        raise ValueError("it leads out of the folder")
    return name


@dataclasses.dataclass(frozen=True)
class _Manifest:
    """The content of a manifest.

    Attributes:
      number: the snapshot's number.
      files: the size in bytes and the SHA-256 of each file, by its path in the folder.
      beside: the name of another folder of snapshots, in which the rest of this one lies under the same number; empty
        if there is no rest.
      finished: the time at which it was written, in seconds since the epoch.
    """

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

    number: schema.Size
    files: dict[Annotated[str, pydantic.AfterValidator(_require_inside)], tuple[schema.Size, schema.Sha256]]
    beside: Annotated[str, pydantic.Field(pattern="^[a-z_]{0,64}$")]
    finished: schema.Number


_MANIFEST = pydantic.TypeAdapter(_Manifest)


class Unsound(ValueError):
    """A snapshot is torn or altered; the message names the file and what is wrong with it."""


def write(folder: pathlib.Path, number: int, beside: str = "") -> None:
    """Writes the manifest of all files in a folder; returns when all of them are on the disk.

    Args:
      folder: the folder.
      number: the snapshot's number.
      beside: the folder in which the rest of the snapshot lies; see `_Manifest`.
    """
    listed, folders = {}, [folder]
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            folders.append(path)
        else:
            files.sync(path)
            listed[path.relative_to(folder).as_posix()] = [path.stat().st_size, files.sha256(path)]
    content = {"number": number, "files": listed, "beside": beside, "finished": time.time()}
    files.write_whole(folder / NAME, files.sealed(content))
    for path in folders:
        files.sync(path)


def verify(folder: pathlib.Path, number: int, content: bool = True) -> None:
    """Checks that a folder holds the snapshot of this number, whole and unaltered.

    Args:
      folder: the folder.
      number: the snapshot's number.
      content: whether files are read; else their sizes are enough.

    Raises:
      Unsound: it doesn't.
    """
    manifest = _read(folder)
    if manifest.number != number:
        raise Unsound(f"{NAME} is that of number {manifest.number}")
    for name, (size, digest) in manifest.files.items():
        path = folder / name
        try:
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode):
                raise Unsound(f"{name} is not a file")
            if found.st_size != size:
                raise Unsound(f"{name} has {found.st_size:,} bytes, not {size:,}")
            if content and files.sha256(path) != digest:
                raise Unsound(f"{name} is altered: its SHA-256 is another one")
        except FileNotFoundError:
            raise Unsound(f"{name} is missing") from None
        except OSError as error:
            raise Unsound(f"{name} can't be read: {error.strerror}") from error


def beside(folder: pathlib.Path) -> str:
    """The name of the folder in which the rest of a snapshot lies; empty if there is none, or no valid manifest."""
    try:
        return _read(folder).beside
    except Unsound:
        return ""


def size(folder: pathlib.Path) -> int:
    """Bytes of a snapshot's files, from its manifest; 0 without a valid one."""
    try:
        return sum(size for size, _ in _read(folder).files.values())
    except Unsound:
        return 0


def written_at(folder: pathlib.Path) -> float | None:
    """The time at which a snapshot was finished, in seconds since the epoch, which copies of its folder keep.

    None if there is no valid manifest.
    """
    try:
        return _read(folder).finished
    except Unsound:
        return None


def _read(folder: pathlib.Path) -> _Manifest:
    """The content of a valid manifest; the files that it lists aren't verified."""
    try:
        return schema.load_sealed(_MANIFEST, schema.parse(schema.read(folder / NAME)))
    except FileNotFoundError:
        raise Unsound(f"{NAME} is missing, so it was never finished") from None
    except OSError as error:
        raise Unsound(f"{NAME} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise Unsound(f"{NAME} is damaged: {error}") from None
