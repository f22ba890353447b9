"""The files in which Linux shows the machine."""

from __future__ import annotations

import contextlib
import pathlib

ROOT = pathlib.Path("/")


def text_of(path: pathlib.Path) -> str:
    """The content of a file; empty if it can't be read."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text()
    return ""
