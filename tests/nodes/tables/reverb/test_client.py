"""Reverb without TensorFlow."""

from __future__ import annotations

import subprocess
import sys

import pytest

from boonta.envs.catch import Catch
from boonta.tests.helpers import tiny
from boonta.tests.helpers.deadline import DEADLINE_S

pytestmark = pytest.mark.cluster
portpicker = pytest.importorskip("portpicker")
from boonta.nodes import replay  # noqa: E402

# In a process of its own, as a node is.
WRITES_AND_READS = """
import sys
import numpy as np
from boonta.agents.base import Steps, Table
from boonta.nodes.base import Node
from boonta.nodes.tables.reverb.store import connect

store = connect("localhost:{port}", None)
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
(client,) = store.clients
print(client.sample(table.name, 1)[0].columns[0].shape)
print([name for name in sys.modules if name.partition(".")[0] in ("tensorflow", "jax", "reverb")])
import reverb
print(reverb.Client("localhost:{port}").server_info()["trajectories"].signature[0].shape)
print(client.server_info()["trajectories"].rate_limiter_info.sample_stats.completed)
import os
os._exit(0)
"""


def test_a_process_writes_and_reads_without_tensorflow_and_may_load_it_later(tmp_path):
    """The queue holds 16 sequences; it is full when the writer completes its 17th and 18th."""
    port = portpicker.pick_unused_port()
    agent = tiny.make(Catch().spec, batch_size=4, length=6)
    server = replay.Replay("replay", f"localhost:{port}", agent, Catch().spec, str(tmp_path))
    server.start()
    try:
        done = subprocess.run(
            [sys.executable, "-c", WRITES_AND_READS.format(port=port)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
    finally:
        server._server.stop()
    assert done.returncode == 0, done.stderr
    full, shape, loaded, signature, sampled = done.stdout.splitlines()
    assert full == "45 actor/0 waited 1 s for room in trajectories"
    assert loaded == "['reverb.libpybind']"
    assert signature == f"({shape[1:-1]})" and int(sampled) >= 1


def test_a_node_needs_no_tensorflow(tmp_path):
    """Neither has a learner's process it, whose agents import rlax, nor a replay server's."""
    code = """
import sys
from boonta.agents import impala, muzero
from boonta.nodes import learner, reanalyzer, replay
from boonta.nodes.tables.reverb import dataset, server, store
from boonta.programs.wiring.interpreters import launchpad
from boonta.nodes.tables.reverb.library import load
load()
print([name for name in sys.modules if name.partition(".")[0] == "tensorflow"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.stdout == "[]\n", done.stderr
