"""The one way to end a process without waiting for what is left in it. This module imports little, on purpose."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

at_end: list[
    Callable[[], Any]
] = []  # What `end_now` calls before the end, such as to remove a folder outside of a run's.


def end_now(code: int) -> NoReturn:
    """Ends the process without waiting for its threads, and without the exit handlers of Python and of libraries.

    Only what `at_end` has is called, whatever it raises.

    No newer Python makes it needless, since none can end a thread. Callers say why they need it:

    - After `local_mt`, a node's thread that is in XLA's compiler holds Python's own exit up for as long as 40 s. After
      `serial`, or in a node's process on a host of its own, threads of Reverb 0.7.1 have crashed it; a newer version is
      to be tried without it.
    - A node's thread, another host, or a tracker's library may never end.
    - A signal has to end a process that still imports, or a node that only saves what others have.

    Args:
      code: the exit code.
    """
    for call in at_end:
        with contextlib.suppress(Exception):  # A second end, of a signal or a timer, may be at it, too.
            call()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # Its reader is gone, or a signal has interrupted this very stream.
            stream.flush()
    os._exit(code)
