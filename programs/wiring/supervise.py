"""Supervises a launched program: shows it, notices dead nodes, ends the others, and reports how the program ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent import futures
from typing import Any

from boonta.nodes.base import Node
from boonta.nodes.monitor import START_S, Monitor
from boonta.programs.wiring.run import end_now
from boonta.programs.wiring.view import View

GRACE_S = 14.0  # Time between the stop request and SIGKILL.
# The same for threads. It is longer because closing a table that Reverb waits for blocks them all, up to 3 s each time.
THREADS_GRACE_S = 30.0
# Time without an answer after which the monitor counts as hung. Nodes wait longer, so that they aren't blamed first.
SILENT_S = 45.0
POLL_S = 0.25


def run_threads(monitor: Monitor, nodes: Sequence[Node]) -> int:
    """Runs the nodes of a program in one process, each in a thread; returns when they have ended.

    Returns:
      The exit code: 0 if a stop rule was reached, 1 if a node failed, 130 after Ctrl-C, 143 after SIGTERM.
    """
    all_nodes = [monitor, *nodes]
    threads = futures.ThreadPoolExecutor(len(all_nodes))
    return stay([_Thread(node.name, threads.submit(node.run)) for node in all_nodes], monitor)


def stay(workers: Sequence[_Process | _Thread], monitor: Any) -> int:
    """Watches the workers until all have ended; returns the exit code."""
    with View() as view:
        supervisor = _Supervisor(workers, monitor, view)
        supervisor.watch()
    code = supervisor.report()
    if any(worker.alive() for worker in workers):  # Threads can't be killed.
        end_now(code)
    return code


class _Process:
    """A node that is a process."""

    def __init__(self, name: str, process: subprocess.Popen):
        self.name = name
        self.pid = process.pid
        self._process = process
        self._sent: set[int] = set()  # Signals that we have sent.

    def alive(self) -> bool:
        return self._process.poll() is None

    def death(self) -> str:
        """Describes how it died; empty if it is alive, ended normally or was ended by us."""
        code = self._process.poll()
        if not code or -code in self._sent:
            return ""
        return f"exited with code {code}" if code > 0 else f"was killed by {signal.Signals(-code).name}"

    def terminate(self) -> None:
        if self.alive():
            self._sent.add(signal.SIGTERM)
            self._process.terminate()

    def kill(self) -> None:
        if self.alive():
            self._sent.add(signal.SIGKILL)
            self._process.kill()
            self._process.wait()


class _Thread:
    """A node that is a thread, which nothing else can end."""

    def __init__(self, name: str, future: futures.Future):
        self.name = name
        self.pid = os.getpid()
        self._future = future

    def alive(self) -> bool:
        return not self._future.done()

    def death(self) -> str:
        """Describes how it died; empty if it is alive or ended normally."""
        error = None if self.alive() else self._future.exception()
        return f"raised {error!r}" if error else ""

    def terminate(self) -> None:
        """Does nothing."""

    def kill(self) -> None:
        """Does nothing."""


def worker(name: str, handle: Any) -> _Process | _Thread:
    """The worker that Launchpad has launched for the node `name`."""
    return _Process(name, handle) if isinstance(handle, subprocess.Popen) else _Thread(name, handle.future)


class _Supervisor:
    """Polls the workers and the monitor until all have ended."""

    def __init__(self, workers: Sequence[_Process | _Thread], monitor: Any, view: View):
        self._workers = workers
        self._monitor = monitor
        self._view = view
        self._status: dict[str, Any] = {}
        self._answered = time.monotonic()
        self._signal = 0
        self._failure = ""
        self._asked: float | None = None
        self._terminated = False
        self._grace_s = THREADS_GRACE_S if any(isinstance(worker, _Thread) for worker in workers) else GRACE_S
        (self._monitor_worker,) = (worker for worker in workers if worker.name == "monitor")

    def watch(self) -> None:
        """Returns when all workers have ended, except for threads that hang."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._caught)
        while any(worker.alive() for worker in self._workers):
            self._refresh()
            if self._asked is None:
                self._look_for_an_end()
            elif time.monotonic() - self._asked > self._grace_s:
                return self._kill_the_late()
            elif not self._monitor_worker.alive() and not self._terminated:
                self._terminate_all()  # Nodes that are still starting haven't received the monitor's request.
            time.sleep(POLL_S)

    def report(self) -> int:
        """Prints how the program ended, and returns the exit code."""
        failure = self._status.get("failure") or self._failure or self._death()[1]
        if failure:
            print(f"error: {failure}", file=sys.stderr, flush=True)
            return 1
        if self._signal:
            print(f"ended by {signal.Signals(self._signal).name}", flush=True)
            return 128 + self._signal
        print(f"done: {self._status.get('reason', 'all nodes ended')}", flush=True)
        return 0

    def _caught(self, number: int, frame: Any) -> None:
        del frame
        self._signal = self._signal or number

    def _refresh(self) -> None:
        try:
            if not self._status:
                self._monitor.expect([worker.name for worker in self._workers if worker is not self._monitor_worker])
            self._status = self._monitor.status()
        except Exception:  # The monitor is starting, hung or ended; time and the workers' exit codes will show which.
            return
        self._answered = time.monotonic()
        self._view.show(self._status)

    def _look_for_an_end(self) -> None:
        """Asks all nodes to end if a signal came, a worker died, or the monitor hangs or has decided to end."""
        dead, death = self._death()
        silent = time.monotonic() - self._answered
        if self._signal:
            self._ask(f"{signal.Signals(self._signal).name} to the launcher")
        elif death:
            self._failure = death
            self._ask(death, dead)
        elif silent > (SILENT_S if self._status else START_S):
            self._failure = f"monitor has not answered for {silent:.0f} s"
            self._ask(self._failure)
        elif self._status.get("reason"):
            self._asked = time.monotonic()

    def _death(self) -> tuple[str, str]:
        """Returns the first worker that died without reporting its end, and how it died; empty if there is none."""
        for worker in self._workers:
            how, doing = worker.death(), self._doing(worker)
            # A node that has reported its end is done; a later abort by Reverb's threads is harmless.
            # Ctrl-C reaches processes that are still starting, too, and ends them.
            if how and doing != "ended" and not (self._signal and doing == "starting"):
                return worker.name, f"{worker.name} {how} while {doing}"
        return "", ""

    def _doing(self, worker: _Process | _Thread) -> str:
        """The activity in a worker's last report to the monitor."""
        if worker is self._monitor_worker:
            return "monitoring" if self._status else "starting"
        node = self._status.get("nodes", {}).get(worker.name, {"activity": "starting", "gone": False})
        return "ended" if node["gone"] else node["activity"]

    def _ask(self, reason: str, dead: str = "") -> None:
        self._asked = time.monotonic()
        try:
            if dead:
                self._monitor.report_end(dead, reason)
            self._monitor.stop_program(reason)
        except Exception:  # The monitor isn't up or has died.
            self._terminate_all()

    def _terminate_all(self) -> None:
        self._terminated = True
        for worker in self._workers:
            worker.terminate()

    def _kill_the_late(self) -> None:
        late = [worker for worker in self._workers if worker.alive()]
        doing = {worker.name: self._doing(worker) for worker in late}
        harmless = ("starting", "compiling", "ended", "monitoring")  # Nothing is lost.
        cut_short = [f"{name} ({what})" for name, what in doing.items() if what not in harmless]
        if cut_short:
            self._failure = self._failure or f"{', '.join(cut_short)} did not end within {self._grace_s:g} s"
        for worker in late:
            worker.kill()
