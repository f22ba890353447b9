"""A whole program of one process whose process is killed: its guard starts it again from its newest snapshot."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from boonta.tests.helpers.running import Running
from boonta.tests.helpers.runs import saved

pytestmark = pytest.mark.once


def beginnings(rows: list[dict[str, float]]) -> list[float]:
    """With how many updates lives began, as far as they had begun to work."""
    return [row["began_with"] for row in rows if "began_with" in row]


def kill(run: Running) -> tuple[int, int]:
    """Kills the program's process once it has saved; returns the newest checkpoint, and how many rows there were."""
    run.wait_until(lambda: saved(run.workdir) > 0 and bool(run.rows), "a checkpoint is saved, and a row written")
    (worker,) = psutil.Process(run.process.pid).children()
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    return saved(run.workdir), len(run.rows)


def test_a_killed_program_of_one_process_goes_on_from_its_newest_checkpoint(tmp_path):
    with Running(tmp_path, "tests/helpers/noting_program.py", "--save-every-s", "1") as run:
        checkpoint, seen = kill(run)
        run.wait_until(lambda: len(beginnings(run.rows[seen:])) > 1, "it works again")
        printed = run.end()
    assert "warning: noting_program was killed by SIGKILL; it starts again in 0.5 s" in printed
    before, later = run.rows[:seen], run.rows[seen:]
    assert set(beginnings(before)) == {0.0} and set(beginnings(later)) == {float(checkpoint)}
    assert later[-1]["updates"] > later[0]["updates"] >= checkpoint


@pytest.mark.slow
def test_one_of_threads_does_too(tmp_path):
    with Running(tmp_path, "programs/impala.py", "catch", "--launch", "sebulba", "--save-every-s", "1") as run:
        checkpoint, seen = kill(run)
        run.wait_until_it_works()
        printed = run.end()
    assert "warning: impala was killed by SIGKILL; it starts again in 0.5 s" in printed
    assert run.rows[-1]["updates"] > run.rows[seen]["updates"] >= checkpoint > 0
