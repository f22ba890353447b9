"""Lets SIGTERM end the process while it still imports; what a platform starts imports this module first.

The first process of a container ignores signals that it has no handler for, and imports take seconds.
"""

from __future__ import annotations

import signal
from types import FrameType

from boonta.nodes.watch.ending import end_now


def _end(number: int, frame: FrameType | None) -> None:
    del frame
    end_now(128 + number)


signal.signal(signal.SIGTERM, _end)
