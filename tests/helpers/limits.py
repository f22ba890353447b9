"""Control groups that limit the memory of a test's processes."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import time
from collections.abc import Iterator

import pytest

CGROUPS = pathlib.Path("/sys/fs/cgroup")
SLEEPERS = 20  # Their death frees nothing, so that several may follow each other.
SLEEP_S = 600  # Longer than a test.
GONE_S = 30.0  # Time for Linux to take the last process out of a group.


@contextlib.contextmanager
def memory(limit: int) -> Iterator[list[str]]:
    """A control group with a limit, in bytes; yields a command that runs the one appended to it, in the group.

    Linux may kill the next largest process beside the one that takes the memory, if another process reads from that
    one's /proc files just then. So the group has processes for it to kill, which count as half of the limit. The test
    is skipped where groups can't be made.
    """
    unified = (CGROUPS / "cgroup.controllers").exists()
    group = CGROUPS / ("" if unified else "memory") / f"boonta-test-{os.getpid()}"
    try:
        if unified:
            (CGROUPS / "cgroup.subtree_control").write_text("+memory")
        group.mkdir()
    except OSError as error:
        pytest.skip(f"control groups of memory can't be made: {error}")
    sleepers = []
    try:
        (group / ("memory.max" if unified else "memory.limit_in_bytes")).write_text(str(limit))
        inside = ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"]
        sleep = [*inside, "sh", "-c", f"echo 500 >/proc/self/oom_score_adj && exec sleep {SLEEP_S}"]
        sleepers = [subprocess.Popen(sleep) for _ in range(SLEEPERS)]
        yield inside
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
        deadline = time.monotonic() + GONE_S
        while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        group.rmdir()
