"""Units of a program: processes that stand for hosts, and meet on loopback."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

from boonta.tests.helpers.apart import free_ports
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.runs import saved

HELPERS = pathlib.Path(__file__).parent
ROOT = HELPERS.parents[1]


class Units:
    """Processes of a program, one per host, in a `with`: with `flags`, and the second one with `own`, and `broken`."""

    def __init__(
        self,
        folder: pathlib.Path,
        number: int,
        *flags: str,
        own: tuple[str, ...] = (),
        broken: bool = False,
        program: str = "unit_program.py",
        devices: int = 1,
    ):
        port = free_ports(1)
        self.folder, self._broken, self._devices = folder, broken, devices
        self._logs = [folder.parent / f"{folder.name}-{index}.log" for index in range(number)]
        self._commands = []
        for index in range(number):
            places = ["--hosts.coordinator", f"127.0.0.1:{port}", "--hosts.number", number, "--hosts.index", index]
            given = [*flags, *(own if index == 1 else ()), *(places if number > 1 else ())]
            self._commands.append([sys.executable, HELPERS / program, "--workdir", folder, *given])

    def __enter__(self) -> Units:
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONUNBUFFERED": "1"}
        environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={self._devices}"
        self.processes = []
        for index, (command, log) in enumerate(zip(self._commands, self._logs)):
            if self._broken and index == 1:
                environment["BREAKS_AFTER"] = "1200"
            with open(log, "a") as out:
                words = list(map(str, command))
                started = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT)
            self.processes.append(started)
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def codes(self) -> list[int]:
        return [process.wait(DEADLINE_S) for process in self.processes]

    def output(self, index: int = 0) -> str:
        return self._logs[index].read_text()

    def await_checkpoint(self) -> None:
        until = time.monotonic() + DEADLINE_S
        while not saved(self.folder):
            assert time.monotonic() < until and all(process.poll() is None for process in self.processes), self.output()
            time.sleep(0.1)
