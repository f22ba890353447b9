"""This machine's memory: how much there is, who is killed where it runs out, and whether someone was."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from boonta.programs.wiring.machine.files import ROOT, text_of

PREFERENCE = pathlib.Path("/proc/self/oom_score_adj")
EXCLUDED = -1000  # The preference of a process that Linux never kills for want of memory.
AHEAD = 100  # In thousandths of the memory, by which a node counts as larger than it is.


class Room(NamedTuple):
    """Bytes of memory.

    Attributes:
      total: those of the machine.
      free: those that processes could still take.
      limit: the least that a control group of this process allows; None where none allows less than the machine has.
    """

    total: int
    free: int
    limit: int | None = None

    @property
    def most(self) -> int:
        """What this process and those beside it can take together."""
        return self.total if self.limit is None else self.limit

    @property
    def left(self) -> int:
        """What they can still take."""
        return self.free if self.limit is None else min(self.free, self.limit)


def room(root: pathlib.Path = ROOT) -> Room | None:
    """The memory of the machine whose files are under `root`; None where it isn't told."""
    rows = (line.split() for line in text_of(root / "proc/meminfo").splitlines())
    sizes = {row[0]: int(row[1]) * 1024 for row in rows if len(row) > 1 and row[1].isdecimal()}
    total, free = sizes.get("MemTotal:"), sizes.get("MemAvailable:")
    if total is None or free is None:
        return None
    words = control_group(root, "memory", "memory.max", "memory.limit_in_bytes")
    limits = [int(word) for word in words if word.isdecimal() and int(word) < total]
    return Room(total, free, min(limits, default=None))


def control_group(root: pathlib.Path, controller: str, name: str, old_name: str, above: bool = True) -> Iterator[str]:
    """The content of a file of this process's control group, and of those above it.

    Args:
      root: the folder that has the machine's files.
      controller: the controller whose file it is, such as "memory".
      name, old_name: the file's name in the unified hierarchy, and in the older ones, one for each controller.
      above: whether also the groups above are meant.
    """
    groups = root / "sys/fs/cgroup"
    for line in text_of(root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0":  # The unified hierarchy.
            top, file = groups, name
        elif controller in controllers.split(","):  # The older ones; their folders may be called "cpu,cpuacct".
            top, file = groups / controller, old_name
        else:
            continue
        own = pathlib.PurePosixPath(path.lstrip("/"))
        for folder in (own, *(own.parents if above else ())):
            if words := text_of(top / folder / file).strip():
                yield words


def offer_first() -> None:
    """Lets Linux kill this process before its parent where memory runs out: the parent is the one that can restart it.

    Linux kills the process that takes the most memory, but now and then also the next largest, while memory of the
    first isn't free yet. A process that is excluded from such kills stays excluded.
    """
    with contextlib.suppress(OSError, ValueError):  # Some containers have no such file, or one that can't be written.
        if (own := int(PREFERENCE.read_text())) != EXCLUDED:
            PREFERENCE.write_text(str(min(own + AHEAD, 1000)))


class OutOfMemory:
    """Notices out-of-memory kills in this process's control group, or else on the whole machine.

    Args:
      root: the folder that has the machine's files.
    """

    def __init__(self, root: pathlib.Path = ROOT):
        self._root = root
        self._seen = kills(root)

    def happened(self) -> bool:
        """Whether there has been such a kill since the last call."""
        before, self._seen = self._seen, kills(self._root)
        return self._seen > before


def kills(root: pathlib.Path = ROOT) -> int:
    """The number of out-of-memory kills so far; 0 where Linux doesn't count them."""
    for text in control_group(root, "memory", "memory.events", "memory.oom_control", above=False):
        if (own := _counter(text)) is not None:
            return own
    return _counter(text_of(root / "proc/vmstat")) or 0


def _counter(text: str) -> int | None:
    """The counter `oom_kill` in a file's content; None if it has none."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdecimal():
            return int(value)
    return None
