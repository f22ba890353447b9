"""How the process of a node on a host of its own ends: what a signal does to it, and its exit code."""

from __future__ import annotations

import queue
import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING

from boonta.nodes.base import Node
from boonta.nodes.monitor import Monitor
from boonta.nodes.watch.ending import end_now
from boonta.nodes.watch.stopping import ASKED, failure_of
from boonta.programs.wiring.run_folder.journal import LOG
from boonta.programs.wiring.supervision.view import conclude

if TYPE_CHECKING:
    from boonta.deploy.core import Task

LEAVE_S = 10.0  # Time from the signal that a node has to report its last counters, if the program goes on without it.


class Ending:
    """Why a node's process ends, and its exit code.

    A platform decides by exit codes what to restart. So a node that is asked to end before the program's work is done
    must not look like one that has done it, whichever node was asked first. The program goes on without one that comes
    back, and without one that it doesn't need; it ends with any other.

    Args:
      task: the node's place in the program.
      instance: the node.
      stop: the event that stops it.
      comes_back: whether the platform starts it again, alone, when a signal has ended it.
    """

    def __init__(self, task: Task, instance: Node, stop: threading.Event, comes_back: bool = False):
        self._task = task
        self._may_leave = task.is_dispensable or comes_back
        self._instance = instance
        self._stop = stop
        self._signal = 0
        self.error = ""  # The exception that the node raised.
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()  # Of all queues the one for signal handlers.
        self._heeding = threading.Thread(target=self._heed_all, daemon=True)
        self._heeding.start()

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal. All that takes a lock is left to a thread: the code that is interrupted may hold it."""
        del frame
        if self._may_leave and not self._instance.ending:
            # At once: the signal may have ended what the node needs, too, so that it fails before the thread wakes.
            self._instance.leaving = self._instance.leaving or not self._instance.failed
        self._signals.put(number)

    def _heed_all(self) -> None:
        while number := self._signals.get():
            self._heed(number)

    def _heed(self, number: int) -> None:
        if self._is_over():
            if isinstance(self._instance, Monitor):
                self._instance.leaving = False  # Its own heartbeats don't tell it that the program is ending.
            if self._failure():  # All were asked to end, one after the other: the first one's end is why this one ends.
                self._signal = number
            return  # The node is ending already, and may still be saving.
        if self._task.is_dispensable and not self._signal:
            late = threading.Timer(LEAVE_S, end_now, (128 + number,))
            late.daemon = True
            late.start()
        self._signal = number
        if isinstance(self._instance, Monitor) and not self._instance.leaving:
            self._instance.report_end(self._task.name, f"{self._task.name} was asked to end by signal {number}")
        self._stop.set()

    def code(self) -> int:
        """Says why the process ends, the program's failure before the node's own; returns the exit code.

        What the monitor's process says is the run's end, as `launch.prepare` has it: its folder has the run's log.
        """
        self._signals.put(0)
        self._heeding.join(LEAVE_S)  # The signals that came before this count, and none that comes later.
        caught = self._signal if self._instance.leaving or not self.error else 0
        failure = "" if caught else "; ".join(filter(None, (self._failure(), self.error)))
        if isinstance(self._instance, Monitor):
            if caught and (known := self._failure()):
                LOG.warning("the program was ending by a failure: %s", known)
            code = conclude({**self._instance.status(), "done": not caught}, failure, caught)
        else:
            code = 128 + (caught or signal.SIGTERM) if caught or self._ends_with_another() else 1 if failure else 0
            if failure:
                LOG.error(failure)
        if caught:
            error = f", and failed while it left: {self.error}" if self.error else ""
            print(f"{self._task.name}: ended by signal {caught}{error}", flush=True)
        elif not failure:
            print(f"{self._task.name}: done", flush=True)
        return code

    def _ends_with_another(self) -> bool:
        """Whether a learner ends, sound, because another was asked to: for a platform this is no failure, either."""
        return self._task.decides and not self.error and self._failure().endswith(ASKED)

    def _is_over(self) -> bool:
        if isinstance(self._instance, Monitor):
            return bool(self._instance.status()["reason"])
        return self._instance.ending

    def _failure(self) -> str:
        instance = self._instance
        return failure_of(instance.status()) if isinstance(instance, Monitor) else instance.failure
