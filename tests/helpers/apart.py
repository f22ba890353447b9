"""Starts each node of a program by its own command, as a host would, on the loopback interface."""

from __future__ import annotations

import os
import pathlib
import random
import socket
import subprocess
import sys
import time

from boonta.nodes import metrics
from boonta.programs.wiring.supervision import dependent
from boonta.tests.helpers.deadline import DEADLINE_S

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIGHT = "tests/helpers/light_program.py"


def free_ports(number: int = 8) -> int:
    """Returns the first of `number` neighbouring ports that are free; pytest's workers have different ones."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 10
    while True:
        base = random.randrange(20_000 + 1000 * worker, 21_000 + 1000 * worker, number)
        try:
            for port in range(base, base + number):
                with socket.socket() as probe:
                    probe.bind(("", port))
            return base
        except OSError:
            continue


class Apart:
    """A context manager that starts nodes, and kills those that still run at its end."""

    def __init__(self, program: str, *flags: str, tunnel: bool = False, starts_again: bool = False):
        self.starts_again = starts_again
        self.program, self.flags, self.port, self.tunnel = program, flags, free_ports(), tunnel
        self.processes: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    def start(
        self, label: str, index: int = 0, flags: tuple[str, ...] = (), reach_s: float = DEADLINE_S, key: str = ""
    ) -> subprocess.Popen:
        where = ["--hosts", "127.0.0.1", "--base-port", str(self.port), "--reach-s", str(reach_s)]
        node = ["-m", "boonta.deploy.node", self.program, "--label", label, "--index", str(index), *where, "--key", key]
        node += ["--tunnel"] if self.tunnel else []
        node += ["--starts-again"] if self.starts_again else []
        self.processes[f"{label}/{index}"] = process = subprocess.Popen(
            dependent.command(sys.executable, *node, "--", *self.flags, *flags),  # No node outlives a killed test.
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return process

    def finish(self, timeout_s: float = DEADLINE_S) -> tuple[dict[str, int], dict[str, str]]:
        """Waits for all nodes and returns their exit codes and outputs; kills those that are late (code -9)."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end and any(process.poll() is None for process in self.processes.values()):
            time.sleep(0.1)
        for process in self.processes.values():
            process.kill()
        outputs = {name: process.communicate()[0] for name, process in self.processes.items()}
        return {name: process.returncode for name, process in self.processes.items()}, outputs

    def wait_for(self, workdir: pathlib.Path, counter: str, above: float, timeout_s: float = DEADLINE_S) -> float:
        """Waits until a counter of the monitor is above a number; returns the counter."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            rows = metrics.read(workdir) if (workdir / "metrics.jsonl").exists() else []
            if rows and rows[-1].get(counter, 0.0) > above:
                return rows[-1][counter]
            time.sleep(0.2)
        raise AssertionError(f"{counter} never rose above {above}")
