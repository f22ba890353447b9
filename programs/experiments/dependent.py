"""Becomes a command that gets SIGTERM when its parent is gone, so that a program saves and ends with its sweep.

`python -I -S dependent.py PARENT COMMAND…`, where PARENT is a process id. This file imports the standard library alone.
Code between a fork and its command would do the same, but the parent has threads, with which forks go wrong.
"""

import ctypes
import os
import signal
import sys

DIES_WITH_PARENT = 1  # Linux's PR_SET_PDEATHSIG, which a process keeps when it becomes another command.

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):  # The parent was gone before.
        sys.exit(128 + signal.SIGTERM)
    os.execv(sys.argv[2], sys.argv[2:])
