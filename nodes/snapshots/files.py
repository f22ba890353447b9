"""Files that survive a kill or a power cut: written whole or not at all, synced to the disk, verified by SHA-256."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import pathlib
import shutil
from typing import Any

BLOCK = 1 << 20
FULL = "its disk is full"  # Words of every failure for want of room, which starting again doesn't mend.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def write_whole(path: pathlib.Path, content: bytes, synced: bool = True) -> None:
    """Writes a file atomically: if the process is killed, the file exists completely or not at all.

    Args:
      path: the file.
      content: all of it.
      synced: whether to wait until the content is on the disk, so that it survives a power cut, too.

    Raises:
      OSError: it can't be written, and is as it was before.
    """
    fresh = fresh_of(path)
    try:
        with open(fresh, "wb") as file:
            file.write(content)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        if not is_full(error):
            raise
        fresh.unlink(missing_ok=True)  # An incomplete file is useless.
        raise OSError(f"{path} can't be written: {fullness(path, error)}; make room there") from error


def fresh_of(path: pathlib.Path) -> pathlib.Path:
    """The file that `write_whole` writes first, and leaves if it is killed."""
    return path.with_name(path.name + ".new")


def write_json(path: pathlib.Path, content: dict[str, Any], synced: bool = True) -> None:
    """Writes a JSON object by `write_whole`."""
    write_whole(path, as_json(content), synced)


def as_json(content: dict[str, Any]) -> bytes:
    """A JSON object as a file's content, which people can read, too."""
    return (json.dumps(content, indent=2) + "\n").encode()


def is_full(error: BaseException) -> bool:
    """Whether a disk without room, or a user's share of it, is the cause. Libraries say so in words alone."""
    return getattr(error, "errno", None) in NO_ROOM or any(os.strerror(each) in str(error) for each in NO_ROOM)


def fullness(path: pathlib.Path, error: BaseException) -> str:
    """The reason for a file or folder that can't be written; of a full disk also how much room is there."""
    if not is_full(error):
        return str(error)
    usage = shutil.disk_usage(next(each for each in (path, *path.absolute().parents) if each.exists()))
    cause = str(error) if isinstance(error, OSError) else os.strerror(errno.ENOSPC)  # Those of libraries fill a page.
    return f"{FULL}, {usage.free / 1e6:,.1f} MB of {usage.total / 1e6:,.1f} MB are free: {cause}"


def sync(path: pathlib.Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def sha256(path: pathlib.Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def sealed(content: dict[str, Any]) -> bytes:
    """A JSON object that contains its own SHA-256, for `unseal`."""
    return as_json({**content, "sha256": _digest(content)})


def unseal(content: dict[str, Any]) -> bool:
    """Removes the SHA-256 from an object; returns whether it matches the rest."""
    try:
        return content.pop("sha256", None) == _digest(content)
    except RecursionError:  # Parsed JSON may be nested too deeply to be written again.
        return False


def _digest(content: dict[str, Any]) -> str:
    """The SHA-256 of an object, independent of the order and the spaces in its file."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
