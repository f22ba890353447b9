"""Writing to a replay server without TensorFlow."""

from __future__ import annotations

import subprocess
import sys

import pytest

from boonta.envs.catch import Catch
from boonta.tests.helpers import tiny
from boonta.tests.helpers.written_steps import Address

pytestmark = pytest.mark.cluster
portpicker = pytest.importorskip("portpicker")
from boonta.nodes import replay  # noqa: E402

pytest.importorskip("reverb")

# In a process of its own, as an actor is.
WRITES = """
import sys
import numpy as np
from boonta.agents.base import Steps, Table
from boonta.nodes.base import Node
from boonta.nodes.tables.reverb.client import connect

class Address:
    def resolve(self):
        return "localhost:{port}"

store = connect(Address().resolve(), None)
table = Table("trajectories", "queue", 6, 5, 4, size=16)
node = Node("actor/0")
deadline_s = 60.0
writer = store.open_writer([table], 2, lambda what, poll: node.wait_for(what, poll, deadline_s), 0)
zero, number = np.zeros(2, np.float32), np.zeros(2, np.int32)
row = Steps(np.zeros((2, 10, 5), np.float32), number, zero, zero, number, {{}}, number)
try:
    for t in range(100):
        deadline_s = 60.0 if t < 45 else 1.0  # Until then there is room.
        writer.append(row)
except TimeoutError as error:
    print(t, error)
loaded = [name for name in sys.modules if name.partition(".")[0] in ("tensorflow", "jax", "reverb")]
print(loaded)
import reverb
print(reverb.Client("localhost:{port}").server_info()["trajectories"].current_size)
print(type(connect(Address().resolve(), None).clients[0]) is reverb.Client)
import os
os._exit(0)
"""


def test_a_process_writes_without_tensorflow_and_may_load_it_later(tmp_path):
    """The queue holds 16 sequences; it is full when the writer completes its 17th and 18th."""
    port = portpicker.pick_unused_port()
    agent = tiny.make(Catch().spec, batch_size=4, length=6)
    server = replay.Replay("replay", Address(port), agent, Catch().spec, str(tmp_path))
    server.start()
    try:
        done = subprocess.run(
            [sys.executable, "-c", WRITES.format(port=port)], capture_output=True, text=True, timeout=240
        )
    finally:
        server._server.stop()
    assert done.returncode == 0, done.stderr
    full, loaded, held, whole = done.stdout.splitlines()
    assert full == "45 actor/0 waited 1 s for room in trajectories"
    assert loaded == "['reverb.libpybind']"
    assert held == "16" and whole == "True"
