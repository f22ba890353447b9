"""Writers that are killed in the middle of a sequence: readers never get a torn one."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import numpy as np
import pytest

from boonta.envs.catch import Catch
from boonta.tests.helpers import tiny
from boonta.tests.helpers.endless_writer import LENGTH, TABLE

pytestmark = pytest.mark.cluster
portpicker = pytest.importorskip("portpicker")
from boonta.nodes import replay  # noqa: E402
from boonta.nodes.tables.reverb.client import Client  # noqa: E402
from boonta.nodes.tables.reverb.streams import Stream  # noqa: E402
from boonta.tests.helpers.written_steps import SIGNATURE  # noqa: E402

LIVES = 4


def test_no_torn_sequence_reaches_the_reader(tmp_path):
    """A writer's steps come whole or not at all, and one that was killed keeps none from its successor."""
    address = f"localhost:{portpicker.pick_unused_port()}"
    agent = tiny.make(Catch().spec)._replace(tables=(TABLE,))
    node = replay.Replay("replay", address, agent, Catch().spec, str(tmp_path))
    node.start()
    stream = Stream(Client(address), TABLE, SIGNATURE, 1, 1)
    moments, drawn = random.Random(0), []

    def draw(timeout_s: float) -> bool:
        stream.ask(1)
        piece = stream.take(1, timeout_s)
        if piece is not None:
            drawn.append(piece.steps.observation[:, 0, 0, :3])
        return piece is not None

    for life in range(LIVES):
        command = [sys.executable, "-m", "boonta.tests.helpers.endless_writer", str(life), address]
        writer = subprocess.Popen(command)
        try:
            while not drawn or drawn[-1][0, 0] != life:
                assert draw(120.0)
            end = time.monotonic() + moments.random()
            while time.monotonic() < end:
                assert draw(120.0)
        finally:
            writer.kill()
            writer.wait()
    while draw(5.0):
        pass
    node._server.stop()
    stream.close()
    assert {int(sequence[0, 0]) for sequence in drawn} == set(range(LIVES))
    for sequence in drawn:
        lives, slots, times = sequence.T
        assert len(sequence) == LENGTH and len(set(lives)) == len(set(slots)) == 1
        np.testing.assert_array_equal(times, times[0] + np.arange(LENGTH))
