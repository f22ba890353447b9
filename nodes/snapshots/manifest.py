"""The manifest of a snapshot: its number, and the size and SHA-256 of each of its files.

The manifest is the last file that is written. A snapshot without a valid one was never finished.
"""

from __future__ import annotations

import json
import pathlib
import stat
from typing import Any

from boonta.nodes.snapshots import files

NAME = "MANIFEST.json"
LARGEST = 1 << 26  # Bytes; a manifest has about a hundred for each file.


class Unsound(ValueError):
    """A snapshot is torn or altered; the message names the file and what is wrong with it."""


def write(folder: pathlib.Path, number: int) -> None:
    """Writes the manifest of all files in a folder; returns when all of them are on the disk."""
    listed, folders = {}, [folder]
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            folders.append(path)
        else:
            files.sync(path)
            listed[path.relative_to(folder).as_posix()] = [path.stat().st_size, files.sha256(path)]
    content = {"number": number, "files": listed}
    files.write_whole(folder / NAME, files.sealed(content))
    for path in folders:
        files.sync(path)


def verify(folder: pathlib.Path, number: int) -> None:
    """Checks that a folder holds the snapshot of this number, whole and unaltered.

    Raises:
      Unsound: it doesn't.
    """
    content = _read(folder)
    if content["number"] != number:
        raise Unsound(f"{NAME} is that of number {content['number']}")
    for name, (size, digest) in content["files"].items():
        path = folder / name
        try:
            found = path.lstat()
            if not stat.S_ISREG(found.st_mode):
                raise Unsound(f"{name} is not a file")
            if found.st_size != size:
                raise Unsound(f"{name} has {found.st_size:,} bytes, not {size:,}")
            if files.sha256(path) != digest:
                raise Unsound(f"{name} is altered: its SHA-256 is another one")
        except FileNotFoundError:
            raise Unsound(f"{name} is missing") from None
        except OSError as error:
            raise Unsound(f"{name} can't be read: {error.strerror}") from error


def size(folder: pathlib.Path) -> int:
    """Bytes of a snapshot's files as its manifest has them; 0 without a valid one."""
    try:
        return sum(size for size, _ in _read(folder)["files"].values())
    except Unsound:
        return 0


def _read(folder: pathlib.Path) -> dict[str, Any]:
    """The content of a manifest that is valid in itself; the files are another matter."""
    path = folder / NAME
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            raise ValueError
        content = json.loads(path.read_bytes())
        if not (isinstance(content, dict) and files.unseal(content) and _is_valid(content)):
            raise ValueError
    except FileNotFoundError:
        raise Unsound(f"{NAME} is missing, so it was never finished") from None
    except OSError as error:
        raise Unsound(f"{NAME} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError):
        raise Unsound(f"{NAME} is damaged") from None
    return content


def _is_valid(content: dict[str, Any]) -> bool:
    number, listed = content.get("number"), content.get("files")
    if set(content) != {"number", "files"} or not isinstance(number, int) or not isinstance(listed, dict):
        return False
    return all(_is_inside(name) and _is_entry(entry) for name, entry in listed.items())


def _is_inside(name: str) -> bool:
    """Whether a file's name can't lead out of the folder."""
    return name.isprintable() and not name.startswith("/") and ".." not in name.split("/")


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, list) and [type(each) for each in entry] == [int, str]
