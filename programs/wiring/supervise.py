"""Watches over a launched program: shows it, notices who died, ends everybody, and says how it ended."""

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

GRACE_S = 14.0  # from asking the nodes to end until those that have not are killed
THREADS_GRACE_S = 30.0  # the same for threads: closing a table that Reverb waits for stops them all, up to 3 s for each
SILENT_S = 45.0  # without an answer from the monitor; less than the nodes wait for one, so that it is the one blamed
POLL_S = 0.25


def run_threads(monitor: Monitor, nodes: Sequence[Node]) -> int:
    """Runs the nodes of a program of one process, each in a thread, and stays until they have ended.

    Returns:
      The exit code: 0 it reached a stop rule, 1 a node failed, 130 Ctrl-C, 143 SIGTERM.
    """
    everybody = [monitor, *nodes]
    threads = futures.ThreadPoolExecutor(len(everybody))
    return stay([_Thread(node.name, threads.submit(node.run)) for node in everybody], monitor)


def stay(workers: Sequence[_Process | _Thread], monitor: Any) -> int:
    """Watches the workers until all have ended; the exit code."""
    with View() as view:
        supervisor = _Supervisor(workers, monitor, view)
        supervisor.watch()
    code = supervisor.tell()
    if any(worker.alive() for worker in workers):  # threads, which can't be killed
        end_now(code)
    return code


class _Process:
    """A node that is a process."""

    def __init__(self, name: str, process: subprocess.Popen):
        self.name = name
        self.pid = process.pid
        self._process = process
        self._sent: set[int] = set()  # signals, by us

    def alive(self) -> bool:
        return self._process.poll() is None

    def death(self) -> str:
        """How it died, in words; empty if it lives, ended well or was ended by us."""
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
    """A node that is a thread, which nobody can end but itself."""

    def __init__(self, name: str, future: futures.Future):
        self.name = name
        self.pid = os.getpid()
        self._future = future

    def alive(self) -> bool:
        return not self._future.done()

    def death(self) -> str:
        """How it died, in words; empty if it lives or ended well."""
        error = None if self.alive() else self._future.exception()
        return f"raised {error!r}" if error else ""

    def terminate(self) -> None:
        """Leaves it alone."""

    def kill(self) -> None:
        """Leaves it alone."""


def worker(name: str, handle: Any) -> _Process | _Thread:
    """What Launchpad has launched for the node `name`."""
    return _Process(name, handle) if isinstance(handle, subprocess.Popen) else _Thread(name, handle.future)


class _Supervisor:
    """Polls the workers and the monitor until everybody has ended."""

    def __init__(self, workers: Sequence[_Process | _Thread], monitor: Any, view: View):
        self._workers = workers
        self._monitor = monitor
        self._view = view
        self._status: dict[str, Any] = {}
        self._answered = time.monotonic()
        self._signal = 0
        self._failure = ""
        self._asked: float | None = None
        self._told_directly = False
        self._grace_s = THREADS_GRACE_S if any(isinstance(worker, _Thread) for worker in workers) else GRACE_S
        (self._monitor_worker,) = (worker for worker in workers if worker.name == "monitor")

    def watch(self) -> None:
        """Returns when all workers have ended, but for threads that don't."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._caught)
        while any(worker.alive() for worker in self._workers):
            self._refresh()
            if self._asked is None:
                self._look_for_an_end()
            elif time.monotonic() - self._asked > self._grace_s:
                return self._kill_the_late()
            elif not self._monitor_worker.alive() and not self._told_directly:
                self._tell_directly()  # those that it never heard of, still starting, would wait for its word
            time.sleep(POLL_S)

    def tell(self) -> int:
        """Says how it ended; the exit code."""
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
        except Exception:  # not up yet, hung or ended: told by the time that passes and the workers' exit codes
            return
        self._answered = time.monotonic()
        self._view.show(self._status)

    def _look_for_an_end(self) -> None:
        """Asks everybody to end if a signal came, a worker died, or the monitor hangs or has decided so."""
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
        """The first worker that died unheard, and how; nothing if none has."""
        for worker in self._workers:
            how, doing = worker.death(), self._doing(worker)
            # Who has said goodbye has said how it ended; what may follow, an abort by Reverb's threads, does no harm.
            # Ctrl-C reaches processes that are still starting, too, and ends them.
            if how and doing != "ended" and not (self._signal and doing == "starting"):
                return worker.name, f"{worker.name} {how} while {doing}"
        return "", ""

    def _doing(self, worker: _Process | _Thread) -> str:
        """What a worker was doing when the monitor last knew."""
        if worker is self._monitor_worker:
            return "monitoring" if self._status else "starting"
        node = self._status.get("nodes", {}).get(worker.name, {"activity": "starting", "gone": False})
        return "ended" if node["gone"] else node["activity"]

    def _ask(self, reason: str, dead: str = "") -> None:
        self._asked = time.monotonic()
        try:
            if dead:
                self._monitor.goodbye(dead, reason)
            self._monitor.stop_program(reason)
        except Exception:  # the monitor isn't up or has died: go without it
            self._tell_directly()

    def _tell_directly(self) -> None:
        self._told_directly = True
        for worker in self._workers:
            worker.terminate()

    def _kill_the_late(self) -> None:
        late = [worker for worker in self._workers if worker.alive()]
        doing = {worker.name: self._doing(worker) for worker in late}
        harmless = ("starting", "compiling", "ended", "monitoring")  # nothing is lost
        cut_short = [f"{name} ({what})" for name, what in doing.items() if what not in harmless]
        if cut_short:
            self._failure = self._failure or f"{', '.join(cut_short)} did not end within {self._grace_s:g} s"
        for worker in late:
            worker.kill()
