"""Watches over a launched program: shows it, notices who died, ends everybody, and says how it ended."""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from concurrent import futures
from typing import Any

import courier
from launchpad.launch.run_locally import launch_local_output_to_files

from nodes.services import Program, lp
from programs.view import View

GRACE_S = 14.0  # from asking the nodes to end until those that have not are killed
POLL_S = 0.25


def run(program: Program, launch_type: str, workdir: str, environment: dict[str, dict[str, str]]) -> int:
    """Launches a program as processes or threads and stays until it has ended.

    Returns:
      The exit code: 0 it reached a stop rule, 1 a node failed, 130 Ctrl-C, 143 SIGTERM.
    """
    logs = pathlib.Path(workdir) / "logs" / time.strftime("%Y%m%d-%H%M%S")
    logs.mkdir(parents=True)
    print(f"run folder {workdir}, logs {logs}", flush=True)
    manager = _launch(program, launch_type, logs, environment)
    names = [node._args[0] for node in program.get_all_nodes()]
    handles = [worker for group in manager._active_workers.values() for worker in group]  # in program order, too
    pids = {name: getattr(handle, "pid", os.getpid()) for name, handle in zip(names, handles)}
    (logs / "pids.json").write_text(json.dumps(pids))
    (monitor,) = program.groups["monitor"]
    client = courier.Client(monitor.courier_address.resolve(), call_timeout=2.0)
    return _Supervisor([_Worker(name, handle) for name, handle in zip(names, handles)], client).watch()


def _launch(program: Program, launch_type: str, logs: pathlib.Path, environment: dict[str, dict[str, str]]) -> Any:
    launch_local_output_to_files._LOGGING_DIR = str(logs)  # the environment variable is read once, when launchpad loads
    resources = None
    if launch_type == "local_mp":
        from launchpad.nodes.python.local_multi_processing import PythonProcess

        resources = {group: PythonProcess(env=variables) for group, variables in environment.items()}
    with contextlib.redirect_stdout(io.StringIO()):  # Launchpad announces each file
        manager = lp.launch(program, launch_type, local_resources=resources, terminal="output_to_files")
    atexit.unregister(manager.wait)  # it would raise a failure again that has been told already
    return manager


class _Worker:
    """A node's process or thread."""

    def __init__(self, name: str, worker: Any):
        self.name = name
        self._process = worker if isinstance(worker, subprocess.Popen) else None
        self._future: futures.Future | None = None if self._process else worker.future

    def alive(self) -> bool:
        if self._process:
            return self._process.poll() is None
        return not self._future.done()  # type: ignore[union-attr]

    def death(self) -> str:
        """How it died, in words; empty if it lives or ended well."""
        if self.alive():
            return ""
        if self._process is None:
            error = self._future.exception()  # type: ignore[union-attr]
            return f"raised {error!r}" if error else ""
        code = self._process.returncode
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code}" if code else ""

    def terminate(self) -> None:
        if self._process and self.alive():
            self._process.terminate()

    def kill(self) -> None:
        if self._process and self.alive():
            self._process.kill()
            self._process.wait()


class _Supervisor:
    """Polls the workers and the monitor until everybody has ended."""

    def __init__(self, workers: list[_Worker], monitor: courier.Client):
        self._workers = workers
        self._monitor = monitor
        self._view = View()
        self._status: dict[str, Any] = {}
        self._signal = 0
        self._failure = ""
        self._asked: float | None = None
        self._told_directly = False
        (self._monitor_worker,) = (worker for worker in workers if worker.name == "monitor")

    def watch(self) -> int:
        """Returns the exit code, having told how it ended."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._caught)
        while any(worker.alive() for worker in self._workers):
            self._refresh()
            if self._asked is None:
                self._look_for_an_end()
            elif time.monotonic() - self._asked > GRACE_S:
                self._kill_the_rest()
            elif not self._monitor_worker.alive() and not self._told_directly:
                self._told_directly = True  # those that it never heard of, still starting, would wait for its word
                for worker in self._workers:
                    worker.terminate()
            time.sleep(POLL_S)
        if self._asked is None:
            self._look_for_an_end()
        self._view.close(self._status or None)
        return self._tell()

    def _caught(self, number: int, frame: Any) -> None:
        del frame
        self._signal = self._signal or number

    def _refresh(self) -> None:
        try:
            self._status = self._monitor.status()
        except Exception:  # not up yet, or ended: the workers' exit codes tell which
            return
        self._view.show(self._status)

    def _look_for_an_end(self) -> None:
        """Asks everybody to end if a signal came, a worker died, or the monitor has decided so."""
        dead = next((worker for worker in self._workers if worker.death()), None)
        if self._signal:
            self._ask(f"{signal.Signals(self._signal).name} to the launcher")
        elif dead:
            doing = self._status.get("nodes", {}).get(dead.name, {}).get("activity", "starting")
            self._failure = f"{dead.name} {dead.death()} while {doing}"
            self._ask(self._failure, dead.name)
        elif self._status.get("reason"):
            self._asked = time.monotonic()

    def _ask(self, reason: str, dead: str = "") -> None:
        self._asked = time.monotonic()
        try:
            if dead:
                self._monitor.goodbye(dead, reason)
            self._monitor.stop_program(reason)
        except Exception:  # the monitor isn't up or has died: go without it
            for worker in self._workers:
                worker.terminate()

    def _kill_the_rest(self) -> None:
        late = [worker for worker in self._workers if worker.alive()]
        if late and not self._failure and not self._signal:
            self._failure = f"{', '.join(worker.name for worker in late)} did not end within {GRACE_S:.0f} s"
        for worker in late:
            worker.kill()
        if any(worker.alive() for worker in late):  # threads can't be killed
            print(f"error: {self._failure or 'stopped'}; threads are still running", file=sys.stderr, flush=True)
            os._exit(1)

    def _tell(self) -> int:
        failure = self._status.get("failure") or self._failure
        if failure:
            print(f"error: {failure}", file=sys.stderr, flush=True)
        if self._signal:
            print(f"ended by {signal.Signals(self._signal).name}", flush=True)
            return 128 + self._signal
        if failure:
            return 1
        print(f"done: {self._status.get('reason', 'all nodes ended')}", flush=True)
        return 0
