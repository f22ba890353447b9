"""A learner that is driven to collapse: the run says so, and ends if it is to; a healthy one is quiet."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from boonta.nodes import metrics
from boonta.nodes.watch.health import PREFIX
from boonta.tests.helpers.deadline import DEADLINE_S

pytestmark = pytest.mark.once
ROOT = pathlib.Path(__file__).parents[2]


def run(folder: pathlib.Path, *flags: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "programs" / "impala.py"), "catch", "--launch", "anakin", *flags]
    return subprocess.run([*command, "--workdir", str(folder)], capture_output=True, text=True, timeout=DEADLINE_S)


@pytest.mark.unoptimised
def test_a_run_that_collapses_ends_with_code_3_and_says_why_last(tmp_path):
    flags = ["--config.optimiser.learning-rate", "10", "--stop.on-collapse", "--stop.seconds", "200"]
    done = run(tmp_path, *flags)
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("done: collapse: ")
    assert "warning: monitor: " in done.stdout and "warning: at the end: " in done.stdout
    last = metrics.read(tmp_path)[-1]
    assert any(value for name, value in last.items() if name.startswith(PREFIX))


def test_a_healthy_run_is_quiet(tmp_path):
    done = run(tmp_path, "--stop.updates", "6000", "--stop.on-collapse")
    assert done.returncode == 0 and "warning" not in done.stdout, done.stdout + done.stderr
    last = metrics.read(tmp_path)[-1]
    assert last["eval_return_se"] is not None and last["eval_age"] is not None
    assert last["return_start"] < 0 < last["return"]
    assert (tmp_path / "checkpoints" / "best").is_dir()
