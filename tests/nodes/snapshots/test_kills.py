"""A process that saves is killed at random moments; what it has said to be saved is there."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pathlib
import signal
import time

import numpy as np
import pytest

from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.snapshots.store import numbers
from boonta.tests.helpers import saving

pytestmark = pytest.mark.once


@pytest.mark.parametrize("kills", [10, pytest.param(30, marks=pytest.mark.slow)])
def test_a_save_killed_at_random_moments_is_always_resumed(tmp_path, kills):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["boonta.tests.helpers.saving"])  # JAX is imported once.
    delays = np.random.default_rng(0).uniform(0.0, 0.2, kills)
    last = 0
    for delay in delays:
        saved = kill_while_saving(context, tmp_path, float(delay))
        warnings: list[str] = []
        checkpointer = Checkpointer(tmp_path / "checkpoints", warn=warnings.append)
        restored, counts = checkpointer.resume(saving.state(0), whole=True)
        step = int(counts["updates"])
        assert step >= saved > last
        saving.tables_of(str(tmp_path)).verify(step)
        assert (tmp_path / "replay" / str(step) / "table").read_text() == str(step)
        newer = [number for number in numbers(tmp_path / "checkpoints") if number > step]
        assert len(warnings) == len(newer) and all(f"replay/{newer[0]}: " in warning for warning in warnings)
        for leaf in restored.values():
            assert np.all(np.asarray(leaf) == step)
        last = step


def kill_while_saving(context, folder: pathlib.Path, delay: float) -> int:
    """Lets a process save at least once, and kills it this much later; the last step that it said was saved."""
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=saving.save_on, args=(str(folder), there))
    process.start()
    there.close()
    saved = here.recv()
    time.sleep(delay)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with contextlib.suppress(EOFError, OSError):  # The last number may be cut short.
        while True:
            saved = here.recv()
    return saved
