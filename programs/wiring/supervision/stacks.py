"""Stacks on request: a process writes those of all its threads into a file of its own, also while Python code hangs."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pathlib
import re
import signal
import time
from collections.abc import Iterator
from typing import IO

REQUEST = signal.SIGUSR2  # Launchpad takes SIGUSR1.
VARIABLE = "BOONTA_STACKS"  # The variable with the folder of these files, which the run's processes inherit.
PREFIX = "stacks-"
POLL_S = 0.05
STEADY_S = 0.4  # Time without growth after which a dump is whole: it is written in many small pieces.
_open: list[IO[str]] = []  # The file of this process: the handler, in C, has its descriptor alone.


def offer() -> None:
    """Makes this process write its stacks when it gets `REQUEST`, if the run has a folder for them.

    That the process has its file there open shows that the signal may be sent; it would end others.
    """
    folder = os.environ.get(VARIABLE)
    if folder:
        file = open(_file(pathlib.Path(folder), os.getpid()), "w")  # noqa: SIM115  # It stays open as long as the handler.
        faulthandler.register(REQUEST, file, all_threads=True)
        _open[:] = [file]


@contextlib.contextmanager
def offered(folder: pathlib.Path) -> Iterator[None]:
    """Offers, in a run's temporary folder, the stacks of this process within the block, and of those that it starts."""
    os.environ[VARIABLE] = str(folder.absolute())
    offer()
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        faulthandler.unregister(REQUEST)
        _open.clear()


def ask(folder: pathlib.Path, pid: int, wait_s: float = 3.0) -> str:
    """The stacks of a process of this machine, the newest call first.

    Args:
      folder: the temporary folder of its run.
      pid: its process id.
      wait_s: seconds to wait for them.

    Raises:
      LookupError: it has ended, or doesn't offer any yet; or it doesn't answer, as one that is stopped.
    """
    path = _file(folder, pid)
    try:
        if not _offers(pid, path):
            raise ProcessLookupError
        before = path.stat().st_size
        os.kill(pid, REQUEST)
    except (FileNotFoundError, ProcessLookupError):
        why = "it has ended, is on another host, or still imports its libraries"
        raise LookupError(f"process {pid} offers no stacks: {why}") from None
    deadline, seen, grew_at = time.monotonic() + wait_s, before, time.monotonic()
    while (now := time.monotonic()) < deadline:
        time.sleep(POLL_S)
        size = path.stat().st_size
        if size != seen:
            seen, grew_at = size, now
        elif before < seen and now - grew_at > STEADY_S:
            return path.read_bytes()[before:].decode(errors="replace")
    raise LookupError(
        f"process {pid} has not written its stacks within {wait_s:g} s: it is stopped, or the disk is full"
    )


def _offers(pid: int, path: pathlib.Path) -> bool:
    """Whether a process is the one whose stacks are in this file: another one may have its number by now."""
    process = pathlib.Path("/proc", str(pid))
    try:
        caught = re.search(r"^SigCgt:\s*(\w+)", (process / "status").read_text(), re.MULTILINE)
        descriptors = list((process / "fd").iterdir())
    except OSError:
        return False
    return bool(caught and int(caught[1], 16) >> (REQUEST - 1) & 1) and any(_same(path, each) for each in descriptors)


def _same(path: pathlib.Path, descriptor: pathlib.Path) -> bool:
    """Whether a descriptor is of this file; one that is closed by now isn't."""
    try:
        return path.samefile(descriptor)
    except OSError:
        return False


def _file(folder: pathlib.Path, pid: int) -> pathlib.Path:
    return folder / f"{PREFIX}{pid}.txt"
