"""What a node's thread is to Launchpad, where that has launched it."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading


def owns_process() -> bool:
    """Whether the calling node is all that its process is for, rather than one thread among others."""
    return threading.current_thread() is threading.main_thread()


def stop_event() -> threading.Event:
    """Launchpad's stop event for this thread; one that never fires where no Launchpad program runs."""
    worker_manager = sys.modules.get("launchpad.launch.worker_manager")
    if worker_manager is not None:
        with contextlib.suppress(RuntimeError):  # raised outside a program's node thread
            event = worker_manager.stop_event()
            if owns_process():  # Ctrl-C reaches all processes: the launcher alone answers it and asks everybody to end
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            return event
    return threading.Event()
