"""ReverbWriter, replay server and dataset together: what goes in comes out, once, in order, time-major."""

from __future__ import annotations

import socket
import threading
import time

import numpy as np
import pytest

from boonta.agents.base import Table
from boonta.envs.catch import Catch
from boonta.nodes.base import Node
from boonta.tests.helpers import tiny
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.written_steps import SIGNATURE, one_device, steps

pytestmark = pytest.mark.cluster
portpicker = pytest.importorskip("portpicker")
from boonta.nodes import replay  # noqa: E402
from boonta.nodes.tables.reverb.client import Client  # noqa: E402


@pytest.fixture
def agent():
    return tiny.make(Catch().spec, batch_size=4, length=6)


@pytest.fixture
def server(agent, tmp_path):
    node = replay.Replay("replay", f"localhost:{portpicker.pick_unused_port()}", agent, Catch().spec, str(tmp_path))
    node.start()
    yield node
    node._server.stop()


def test_sequences_overlap_as_the_table_says_and_come_out_in_order(server, agent):
    from boonta.nodes.tables.reverb.dataset import ReverbDataset
    from boonta.nodes.tables.reverb.writer import ReverbWriter

    (table,) = agent.tables
    client = Client(f"localhost:{server._server.port}")
    node = Node("actor/0")
    writer = ReverbWriter(client, [table], 2, node.wait_for)
    dataset = ReverbDataset([client], [table], one_device(), SIGNATURE, node.wait_for, updates=0)
    completed = [writer.append(steps(t, 2)) for t in range(2 * table.period + 1)]
    assert completed == [0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2]
    batch, _ = node.wait_for("a batch", dataset.next, deadline_s=60)
    assert batch.steps.observation.shape == (6, 4, 10, 5)
    expected = [[100 * slot + start + t for start in (0, 5) for slot in (0, 1)] for t in range(6)]
    np.testing.assert_array_equal(np.asarray(batch.steps.reward), expected)
    np.testing.assert_array_equal(np.asarray(batch.steps.version)[:, 0], range(6))
    np.testing.assert_array_equal(np.asarray(batch.probability), np.ones(4))
    writer.close()
    dataset.close()


def test_a_full_queue_blocks_its_writer_by_name_and_loses_nothing(server, agent):
    from boonta.nodes.tables.reverb.dataset import ReverbDataset
    from boonta.nodes.tables.reverb.writer import ReverbWriter

    (table,) = agent.tables
    client = Client(f"localhost:{server._server.port}")
    node = Node("actor/0")
    written = []

    def write():
        writer = ReverbWriter(client, [table], 1, node.wait_for)
        for t in range(table.period * (table.size + 4) + 1):
            writer.append(steps(t, 1))
            written.append(t)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    most = table.period * (table.size + 1)
    deadline = time.monotonic() + 60
    waiting = f"waiting for room in {table.name}"
    while (
        client.server_info()[table.name].current_size < table.size
        or len(written) < most
        or node.stopwatch.longest()[0] != waiting
    ):
        assert time.monotonic() < deadline, len(written)
        time.sleep(0.05)
    time.sleep(0.5)  # In which it would go on.
    assert len(written) == most and node.stopwatch.longest()[0] == waiting
    dataset = ReverbDataset([client], [table], one_device(), SIGNATURE, node.wait_for, updates=0)
    firsts = [np.asarray(node.wait_for("a batch", dataset.next, deadline_s=60)[0].steps.reward)[0] for _ in range(5)]
    np.testing.assert_array_equal(np.concatenate(firsts), table.period * np.arange(20))
    thread.join(timeout=DEADLINE_S)
    assert not thread.is_alive()
    dataset.close()


def test_a_stream_is_closed_even_while_it_waits(server, agent):
    from boonta.nodes.tables.reverb.streams import Stream

    (table,) = agent.tables
    stream = Stream(Client(f"localhost:{server._server.port}"), table, SIGNATURE, size=4, in_flight=4)
    stream.ask(4)
    assert stream.take(4, 1.0) is None  # The table is empty.
    stream.close()
    with pytest.raises(RuntimeError, match="reading table 'trajectories' failed"):
        stream.take(4, 30.0)


def test_a_port_in_use_is_named(agent, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} for the replay server is in use"):
            replay.Replay("replay", f"localhost:{port}", agent, Catch().spec, str(tmp_path)).start()


@pytest.mark.parametrize(
    ("length", "period", "chunk"),
    [(24, 20, 4), (21, 20, 4), (6, 5, 1), (5, 5, 1), (41, 40, 4), (40, 10, 10), (2, 4, 2)],
)
def test_chunks_line_up_with_sequences(length, period, chunk):
    from boonta.nodes.tables.reverb.writer import chunk_length

    assert chunk_length(Table("t", "queue", length, period, 1, 1)) == chunk
    assert period % chunk == 0


def test_a_writer_waits_for_a_server_that_starts_later(agent, tmp_path):
    from boonta.nodes.tables.reverb.writer import ReverbWriter

    port = portpicker.pick_unused_port()
    late = replay.Replay("replay", f"localhost:{port}", agent, Catch().spec, str(tmp_path))
    starter = threading.Timer(4.0, late.start)  # Reverb by itself gives up after 3
    starter.start()
    writer = ReverbWriter(Client(f"localhost:{port}"), agent.tables, 2, Node("actor").wait_for)
    starter.join()
    assert sum(writer.append(steps(t, 2)) for t in range(6)) == 2
    late._server.stop()


@pytest.mark.parametrize(
    ("kind", "period", "items", "left"),
    [
        ("replay", 1, 4, 12),  # The newest three of four rows.
        ("replay", 1, 16, 32),  # Reverb would warn of more than 50 in all.
        ("replay", 2, 4, 4),
        ("replay", 4, 4, 0),  # Rows that make no item of their own have no wait to share.
        ("queue", 1, 4, 0),
    ],
)
def test_of_short_periods_some_items_may_be_under_way(kind, period, items, left):
    from boonta.nodes.tables.reverb.writer import under_way

    sampler = None if kind == "queue" else "uniform"
    assert under_way(Table("t", kind, 8, period, 1, 1, sampler), items) == left
