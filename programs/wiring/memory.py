"""Kills by Linux because memory has run out: whether a process that was killed by SIGKILL is one of them."""

from __future__ import annotations

import pathlib

CGROUP = pathlib.Path("/proc/self/cgroup")
CGROUPS = pathlib.Path("/sys/fs/cgroup")
VMSTAT = pathlib.Path("/proc/vmstat")


class OutOfMemory:
    """Notices out-of-memory kills in this process's control group, or else on the whole machine."""

    def __init__(self) -> None:
        self._seen = kills()

    def happened(self) -> bool:
        """Whether there has been such a kill since the last call."""
        before, self._seen = self._seen, kills()
        return self._seen > before


def kills() -> int:
    """The number of out-of-memory kills so far; 0 where Linux doesn't count them."""
    for line in _lines(CGROUP):
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        own = None
        if number == "0":  # The unified hierarchy.
            own = _counter(CGROUPS / path.lstrip("/") / "memory.events")
        elif "memory" in controllers.split(","):  # The older ones, one for each controller.
            own = _counter(CGROUPS / "memory" / path.lstrip("/") / "memory.oom_control")
        if own is not None:
            return own
    return _counter(VMSTAT) or 0


def _counter(path: pathlib.Path) -> int | None:
    """The counter `oom_kill` in a file; None if it has none."""
    for line in _lines(path):
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdecimal():
            return int(value)
    return None


def _lines(path: pathlib.Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []
