"""Fresh data through a replay server: what is too old is left out, counted, and doesn't count as what is there."""

from __future__ import annotations

import numpy as np
import pytest

from boonta.agents.base import Table
from boonta.envs.catch import Catch
from boonta.nodes.base import Node
from boonta.tests.helpers import tiny
from boonta.tests.helpers.written_steps import SIGNATURE, one_device, steps

pytestmark = pytest.mark.cluster
portpicker = pytest.importorskip("portpicker")
from boonta.nodes import replay  # noqa: E402
from boonta.nodes.tables.reverb.client import Client  # noqa: E402

TABLE = Table("trajectories", "queue", sequence_length=2, period=2, batch_size=4, size=40, max_staleness=1)


@pytest.fixture
def client(tmp_path):
    agent = tiny.make(Catch().spec)._replace(tables=(TABLE,))
    node = replay.Replay("replay", f"localhost:{portpicker.pick_unused_port()}", agent, Catch().spec, str(tmp_path))
    node.start()
    yield Client(f"localhost:{node._server.port}")
    node._server.stop()


def write(client, *versions: int) -> None:
    """One sequence for each version."""
    from boonta.nodes.tables.reverb.writer import ReverbWriter

    writer = ReverbWriter(client, [TABLE], 1, Node("actor/0").wait_for)
    for version in np.repeat(versions, TABLE.sequence_length):
        writer.append(steps(0, 1)._replace(version=np.full(1, version, np.int32)))
    writer.flush()
    writer.close()


def test_what_is_too_old_or_of_a_life_that_is_lost_is_left_out_and_ready_knows_it(client):
    from boonta.nodes.tables.reverb.dataset import ReverbDataset

    write(client, 3, 9, 5, 4, 3, 5)
    data = ReverbDataset([client], [TABLE], one_device(), SIGNATURE, Node("learner").wait_for, updates=5)
    assert not data.ready()  # There are six, of which three are fresh.
    write(client, 5)
    assert data.ready()
    batch, drawn = data.next(60.0)
    assert np.asarray(batch.steps.version)[0].tolist() == [5, 4, 5, 5] and drawn.stale == 3
    assert not data.ready()
    write(client, 4, 5, 6, 6)  # The next update allows 5 and 6.
    assert not data.ready()
    write(client, 7)  # No update has made them yet.
    assert not data.ready()
    write(client, 6)
    assert data.ready()
    batch, drawn = data.next(60.0)
    assert np.asarray(batch.steps.version)[0].tolist() == [5, 6, 6, 6] and drawn.stale == 2
    data.close()
