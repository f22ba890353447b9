"""Damages files, in the ways in which disks, kills and people do, and fills disks.

What damages a file returns whether the file is another one now.
"""

from __future__ import annotations

import pathlib
import shutil


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
