"""A replay server is killed at random moments of saving its table; what it has said to be saved is there."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pathlib
import signal
import time
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_a_save_of_reverbs_killed_at_random_moments_is_always_resumed(tmp_path, kills):
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["boonta.tests.helpers.saving_tables"])  # JAX is imported once.
    saved = 0
    for moment in np.random.default_rng(3).uniform(0.0, 1.0, kills + 1):  # The last kill is of the one that looks.
        (number, size, warnings), saved_next = kill_while_saving(context, tmp_path, float(moment))
        assert number >= saved and size == number and not warnings
        assert saved_next > number
        saved = saved_next


def kill_while_saving(context: Any, folder: pathlib.Path, moment: float) -> tuple[tuple, int]:
    """Lets a server save once, and kills it in its next save, after this part of the time that the first one took.

    Returns:
      What it has resumed, and the number of the last save that it said was done.
    """
    from boonta.tests.helpers import saving_tables

    here, there = context.Pipe(duplex=False)
    process = context.Process(target=saving_tables.save_on, args=(str(folder), there))
    process.start()
    there.close()
    _, *resumed = here.recv()
    here.recv()
    began = time.monotonic()
    _, saved = here.recv()
    took = time.monotonic() - began
    here.recv()
    time.sleep(moment * took)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with contextlib.suppress(EOFError, OSError):  # The last number may be cut short.
        while True:
            kind, number = here.recv()
            saved = number if kind == "saved" else saved
    return tuple(resumed), saved
