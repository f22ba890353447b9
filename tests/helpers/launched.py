"""Starts whole programs as processes, waits for what they do, and names their nodes' processes."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import psutil
import pytest

from boonta.nodes import metrics
from boonta.tests.helpers.deadline import DEADLINE_S

ROOT = pathlib.Path(__file__).parents[2]
TINY = "tests/helpers/tiny_program.py"
LIGHT = "tests/helpers/light_program.py"  # Its processes start in a second.
LIMIT = 10_000_000  # Env steps to which the light program comes only by a leap.
# For `unoptimised` programs whose agent searches with few simulations. It is XLA's mistake: the gradient of the second
# update is NaN where the whole update is compiled without optimisations. With the same params and batch it is finite
# with them, and operation by operation with and without (jax 0.12).
SMALL_SEARCH = pytest.mark.skipif(
    sys.version_info >= (3, 11), reason="without optimisations, the XLA of these Pythons' JAX computes a loss of NaN"
)


def start(*arguments: str, program: str = TINY) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(ROOT / program), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def ends_with(file: pathlib.Path, limit: int = LIMIT) -> tuple[str, ...]:
    """Flags of the light or the noting program: it ends once there is this file, however fast the machine is."""
    return ("--stop.env-steps", str(limit), "--leaps-at", str(file))


def finish(process: subprocess.Popen, timeout_s: float = DEADLINE_S) -> str:
    try:
        return process.communicate(timeout=timeout_s)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def wait_for_rows(workdir: pathlib.Path, process: subprocess.Popen, updates: int = 1) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline and process.poll() is None:
        if (workdir / "metrics.jsonl").exists():
            rows = metrics.read(workdir)
            if rows and rows[-1].get("updates", 0) >= updates:
                return
        time.sleep(0.3)
    raise AssertionError(f"no updates: {finish(process)}")


def pids(workdir: pathlib.Path) -> dict[str, int]:
    *_, file = sorted(workdir.glob("logs/*/pids.json"))  # Of the newest start.
    return json.loads(file.read_text())


def running(workdir: pathlib.Path) -> list[int]:
    return [pid for pid in pids(workdir).values() if psutil.pid_exists(pid)]
