"""Ends processes with the one that started them: Linux sends SIGTERM to each whose parent is gone, however it went.

A program saves then, and ends with its sweep, a node with its launcher or with `join`, and a program of one process
with its guard. On several hosts, nodes are started by a platform, which ends them itself.

`python -I -S dependent.py PARENT COMMAND…`, where PARENT is a process id, becomes a command that ends with its parent,
from its first moment on: a node's imports take seconds. This file imports the standard library alone. Code between a
fork and its command would do the same, but parents have threads, with which forks go wrong.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

DIES_WITH_PARENT = 1  # Linux's PR_SET_PDEATHSIG, which a process keeps when it becomes another command.


def command(*words: str) -> list[str]:
    """A command that ends with this process; the main thread must start it, since Linux goes by the thread."""
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *words]


def end_with(parent: int) -> None:
    """Has this process get SIGTERM once its parent is gone.

    Args:
      parent: the parent's process id; if it is gone by now, this process ends at once.
    """
    ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
