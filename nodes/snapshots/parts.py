"""Where the tables of a program lie: in one folder, or in one for each of its replay servers.

One server's snapshots lie in the folder itself, under their numbers; those of two in `0_of_2` and `1_of_2` within it.
So a name says how many parts there must be, whichever are there.
"""

from __future__ import annotations

import pathlib
import re


def name(part: int, parts: int) -> str:
    """The name of a server's folder within that of the tables; empty where there is one server."""
    return f"{part}_of_{parts}" if parts > 1 else ""


def divisions(folder: pathlib.Path) -> list[list[pathlib.Path]]:
    """The parts of the folder's tables, for each number of servers that they were saved with: first of all, for one."""
    names = [re.fullmatch(r"(\d{1,3})_of_(\d{1,3})", path.name) for path in folder.glob("*_of_*")]
    counts = sorted({int(match[2]) for match in names if match} - {0, 1})
    return [[folder], *([folder / name(part, count) for part in range(count)] for count in counts)]


def parts_of(folder: pathlib.Path, number: int) -> list[pathlib.Path]:
    """The folders in which the parts of one snapshot of the tables lie, or would have to.

    Args:
      folder: the folder of the tables.
      number: the snapshot's number. A run may have gone on with another number of servers: the parts are those among
        which there is one with this number; if there is none, those for most servers.
    """
    found = divisions(folder)
    return next((parts for parts in reversed(found) if any((part / str(number)).exists() for part in parts)), found[-1])
