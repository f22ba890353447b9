"""Control groups that limit the memory of a test's processes."""

from __future__ import annotations

import contextlib
import os
import pathlib
import time
from collections.abc import Iterator

import pytest

CGROUPS = pathlib.Path("/sys/fs/cgroup")
GONE_S = 30.0  # Time for Linux to take the last process out of a group.


@contextlib.contextmanager
def memory(limit: int) -> Iterator[list[str]]:
    """A control group with a limit, in bytes; yields a command that runs the one appended to it, in the group.

    The test is skipped where groups can't be made.
    """
    unified = (CGROUPS / "cgroup.controllers").exists()
    group = CGROUPS / ("" if unified else "memory") / f"boonta-test-{os.getpid()}"
    try:
        if unified:
            (CGROUPS / "cgroup.subtree_control").write_text("+memory")
        group.mkdir()
    except OSError as error:
        pytest.skip(f"control groups of memory can't be made: {error}")
    try:
        (group / ("memory.max" if unified else "memory.limit_in_bytes")).write_text(str(limit))
        yield ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        deadline = time.monotonic() + GONE_S
        while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        group.rmdir()
