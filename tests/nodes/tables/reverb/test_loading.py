"""What readers do while the replay server loads its tables: it answers late, or what stands before it hangs up."""

from __future__ import annotations

import socket

import numpy as np
import pytest

from boonta.envs.catch import Catch
from boonta.nodes.base import Node, Stopped
from boonta.tests.helpers import tiny
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.written_steps import SIGNATURE, one_device, steps

pytestmark = pytest.mark.cluster
portpicker = pytest.importorskip("portpicker")
from boonta.nodes import replay  # noqa: E402
from boonta.nodes.tables.reverb.client import Client  # noqa: E402
from boonta.nodes.tables.reverb.dataset import ReverbDataset  # noqa: E402
from boonta.nodes.tables.reverb.streams import Stream  # noqa: E402
from boonta.nodes.tables.reverb.writer import ReverbWriter  # noqa: E402

(TABLE,) = tiny.make(Catch().spec, batch_size=4, length=6).tables
ERRORS = ["Deadline Exceeded", "Socket closed"]


class Loading(Client):
    """A client whose first calls fail, as if each had had all the time that callers give it.

    Attributes:
      left: how many calls still fail.
    """

    def __init__(self, address: str, error: str, left: int = 3):
        super().__init__(address)
        self._failure = error
        self.left = left

    def server_info(self, timeout_s=None):
        if self.left > 0:
            self.left -= 1
            raise RuntimeError(self._failure)
        return super().server_info(timeout_s)


@pytest.fixture
def address(tmp_path):
    """The address of a replay server whose table has four sequences, the rewards of number i from 5 i on."""
    agent = tiny.make(Catch().spec, batch_size=4, length=6)
    node = replay.Replay("replay", f"localhost:{portpicker.pick_unused_port()}", agent, Catch().spec, str(tmp_path))
    node.start()
    writer = ReverbWriter(Client(f"localhost:{node._server.port}"), [TABLE], 1, node.wait_for)
    for t in range(TABLE.sequence_length + 3 * TABLE.period):
        writer.append(steps(t, 1))
    writer.flush()
    writer.close()
    yield f"localhost:{node._server.port}"
    node._server.stop()


@pytest.mark.parametrize("error", ERRORS)
def test_a_stream_gives_its_sequences_once_the_server_answers(address, error):
    client = Loading(address, error)
    stream = Stream(client, TABLE, SIGNATURE, size=4, in_flight=4)
    stream.ask(4)
    piece = stream.take(4, DEADLINE_S)
    assert piece is not None and client.left == 0
    np.testing.assert_array_equal(piece.steps.reward[0], [0, 5, 10, 15])
    stream.close()


def test_a_stream_that_is_closed_waits_for_no_server():
    stream = Stream(Loading("localhost:1", ERRORS[0], left=10**9), TABLE, SIGNATURE, size=4, in_flight=4)
    assert stream.take(4, 0.0) is None
    stream.close()
    with pytest.raises(RuntimeError, match="reading table 'trajectories' failed"):
        stream.take(4, DEADLINE_S)


@pytest.mark.parametrize("error", ERRORS)
def test_a_learners_batches_wait_for_the_server_by_name(address, error):
    node, client = Node("learner"), Loading(address, error)
    seen = []
    node.meanwhile = lambda: seen.append(node.stopwatch.longest()[0])
    dataset = ReverbDataset([client], [TABLE], one_device(), SIGNATURE, node.wait_for, updates=0)
    assert seen == 3 * ["waiting for the replay server"]
    batch, _ = node.wait_for("a batch", dataset.next, deadline_s=DEADLINE_S)
    np.testing.assert_array_equal(np.asarray(batch.steps.reward)[0], [0, 5, 10, 15])
    dataset.close()


def test_a_learner_that_is_asked_to_stop_meanwhile_stops():
    node = Node("learner")
    node.meanwhile = node.stop
    with pytest.raises(Stopped):
        ReverbDataset([Loading("localhost:1", ERRORS[0])], [TABLE], one_device(), SIGNATURE, node.wait_for, updates=0)


def test_what_does_not_listen_or_hangs_up_has_not_answered():
    assert Client(f"localhost:{portpicker.pick_unused_port()}").poll_info(0.5) is None
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert Client(f"localhost:{silent.getsockname()[1]}").poll_info(0.5) is None
