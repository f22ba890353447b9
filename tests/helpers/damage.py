"""Damages files, in the ways in which disks, kills and people do, and fills disks.

What damages a file returns whether the file is another one now.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import pytest

FILLER = "filler"


def truncate(path: pathlib.Path) -> bool:
    """Cuts a file's last half off, and at least a byte."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return bool(content)


def empty(path: pathlib.Path) -> bool:
    changed = path.stat().st_size > 0
    path.write_bytes(b"")
    return changed


def delete(path: pathlib.Path) -> bool:
    path.unlink()
    return True


def flip(path: pathlib.Path) -> bool:
    """Flips one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    if content:
        content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return bool(content)


DAMAGES = {"truncated": truncate, "emptied": empty, "deleted": delete, "a bit flipped": flip}


def fill_disk(patch) -> None:
    """Makes disks look full, as long as the patch lasts."""
    usage = shutil.disk_usage
    patch.setattr(shutil, "disk_usage", lambda folder: usage(folder)._replace(free=0))


@contextlib.contextmanager
def mounted(folder: pathlib.Path, options: str) -> Iterator[pathlib.Path]:
    """Mounts a small disk, in memory, at a folder; skips the test where that isn't allowed.

    Args:
      folder: made if missing.
      options: of the mount, such as "size=8m" or "ro".
    """
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "boonta-test", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"mounting a disk needs root: {getattr(error, 'stderr', '') or error}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=30)


def fill(disk: pathlib.Path) -> None:
    """Fills a mounted disk to the last byte."""
    with open(disk / FILLER, "ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))


def free(disk: pathlib.Path) -> None:
    """Takes away what `fill` has written."""
    os.unlink(disk / FILLER)
