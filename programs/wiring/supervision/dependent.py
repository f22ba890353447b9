"""Ends processes with the one that started them: Linux sends SIGTERM to each whose parent is gone, however it went.

A program saves then, and ends with its sweep, a node with its launcher or with `join`, and a program of one process
with its guard. On several hosts, nodes are started by a platform, which ends them itself.

`python -I -S dependent.py PARENT HELD COMMAND…`, where PARENT is a process id, becomes a command that ends with its
parent, from its first moment on: a node's imports take seconds. This file imports the standard library alone. Code
between a fork and its command would do the same, but parents have threads, with which forks go wrong.

A command that is asked to end may still write. It holds the file HELD until it has ended, by which others can tell.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import struct
import sys

DIES_WITH_PARENT = 1  # Linux's PR_SET_PDEATHSIG, which a process keeps when it becomes another command.
FLOCK = "hhqqi"  # Linux's `struct flock`: type, whence, start, length, process id.


def command(*words: str, held: str = "") -> list[str]:
    """A command that ends with this process; the main thread must start it, since Linux goes by the thread.

    Args:
      words: the command.
      held: the path of a file that it holds until it has ended, see `holder`; empty for none.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), held, *words]


def holder(file: str | os.PathLike[str]) -> int | None:
    """The id of a process that holds a file, as a `command` does; None if there is none, or no such file."""
    try:
        with open(file) as opened:
            asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, *_, pid = struct.unpack(FLOCK, fcntl.fcntl(opened, fcntl.F_GETLK, asked))
    except OSError:
        return None
    return None if kind == fcntl.F_UNLCK else pid


def _hold(file: str) -> None:
    """Holds a file until this process has ended, also as another command.

    A lock of POSIX, unlike one of `flock`, is no child's, which may outlive the process, and can be seen without being
    taken. Nobody locks the file alone, so that it is had at once.
    """
    with contextlib.suppress(OSError):  # A disk that is full, or gone, is no reason for a node not to start.
        opened = os.open(file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.set_inheritable(opened, True)  # Closing it would give the lock up.
        fcntl.lockf(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)


def end_with(parent: int) -> None:
    """Has this process get SIGTERM once its parent is gone.

    Args:
      parent: the parent's process id; if it is gone by now, this process ends at once.
    """
    ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    if sys.argv[2]:
        _hold(sys.argv[2])
    end_with(int(sys.argv[1]))
    os.execvp(sys.argv[3], sys.argv[3:])
