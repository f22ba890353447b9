"""Batches from several tables: their shares, what happens when one has too little, and whose priorities are whose."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest

from boonta.agents.base import Table
from boonta.envs.catch import Catch
from boonta.nodes.base import Node
from boonta.nodes.tables.contract import PRIORITY_FLOOR as FLOOR
from boonta.tests.helpers import tiny
from boonta.tests.helpers.written_steps import SIGNATURE, one_device, steps

pytestmark = pytest.mark.cluster
portpicker = pytest.importorskip("portpicker")
from boonta.nodes import replay  # noqa: E402
from boonta.nodes.tables.reverb.client import Client  # noqa: E402

FRESH = Table(
    "fresh", "replay", 6, 1, batch_size=8, size=100, sampler="proportional", samples_per_insert=None, share=0.25
)
AGAIN = dataclasses.replace(
    FRESH, name="again", writer="reanalyzer", period=6, share=0.75, samples_per_insert=2.0, min_size=6
)

OPENED: list = []  # datasets of the running test


@pytest.fixture
def server(tmp_path, again):
    agent = tiny.make(Catch().spec)._replace(tables=(FRESH, again))
    node = replay.Replay("replay", f"localhost:{portpicker.pick_unused_port()}", agent, Catch().spec, str(tmp_path))
    node.start()
    yield Client(f"localhost:{node._server.port}")
    node._server.stop()  # first: of a table that is open readers in its process take 3 s to let go
    while OPENED:
        OPENED.pop().close()


@pytest.fixture
def again():
    return AGAIN


def write(client, table: Table, sequences: int, start: int = 0) -> None:
    """Adds sequences whose first rewards, and versions, are `start`, `start + period`, …"""
    from boonta.nodes.tables.reverb.writer import ReverbWriter

    writer = ReverbWriter(client, [table], 1, Node("actor/0").wait_for)
    for t in range(table.sequence_length + table.period * (sequences - 1)):
        writer.append(steps(start + t, 1))
    writer.flush()
    writer.close()


def dataset(client, patience_s: float = 60.0):
    from boonta.nodes.tables.reverb.dataset import ReverbDataset

    OPENED.append(
        ReverbDataset(
            [client],
            (FRESH, AGAIN),
            one_device(),
            SIGNATURE,
            Node("learner").wait_for,
            updates=0,
            patience_s=patience_s,
            start_patience_s=patience_s,
        )
    )
    return OPENED[-1]


@pytest.mark.parametrize("again", [dataclasses.replace(AGAIN, samples_per_insert=None, min_size=1)])
def test_each_table_gives_its_share_and_gets_its_own_priorities_back(server, again):
    write(server, FRESH, 3)
    write(server, AGAIN, 4, start=1000)
    reader = dataset(server)
    batch, drawn = reader.next(60.0)
    first = np.asarray(batch.steps.reward)[0]
    assert batch.steps.observation.shape == (6, 8, 10, 5)
    assert list(drawn.table) == [0] * 2 + [1] * 6
    np.testing.assert_array_equal(first >= 1000, drawn.table == 1)
    np.testing.assert_array_equal(drawn.version, first + 2.5)  # a mean over six steps
    np.testing.assert_allclose(batch.probability, np.ones(8))  # whatever a table's size
    errors = np.arange(1.0, 9.0, dtype=np.float32)
    reader.prioritise(drawn, errors)
    for i, table in enumerate((FRESH, AGAIN)):
        expected = dict(zip(drawn.keys[drawn.table == i].tolist(), errors[drawn.table == i] + FLOOR))
        found = {int(s.key): float(s.priority) for s in server.sample(table.name, 200)}
        assert {key: found[key] for key in expected} == pytest.approx(expected)


def test_what_a_table_cannot_supply_comes_from_the_first_until_it_can_again(server):
    write(server, FRESH, 3)
    reader = dataset(server, patience_s=0.2)
    for _ in range(4):
        _, drawn = reader.next(60.0)
        assert list(drawn.table) == [0] * 8
    assert reader.waits_for == "fresh"
    write(server, AGAIN, 12, start=1000)
    taken = []
    deadline = time.monotonic() + 60
    while 6 not in taken or sum(taken) < 2 * 6 or taken[-1]:
        assert time.monotonic() < deadline, taken
        taken.append(int(np.sum(reader.next(60.0)[1].table == 1)))
        time.sleep(0.1)  # What is drawn ahead of the next batch may come.
    assert set(taken) <= {0, 2, 4, 6}  # in pieces of two
    assert sum(taken) <= 2 * 6 + 8  # Six sequences fill the table, six more are drawn twice each, and a batch more.


def test_the_table_waited_for_has_a_name_and_ready_means_that_all_have_enough(server):
    write(server, FRESH, 3)
    reader = dataset(server)
    for _ in range(300):  # Until the table that has enough is drawn from, which takes long on a busy machine.
        assert reader.next(0.2) is None
        if reader.waits_for == "again":
            break
    assert reader.waits_for == "again" and not reader.ready()
    write(server, AGAIN, 12, start=1000)
    assert reader.next(60.0) is not None
    assert reader.ready()


def test_an_unreadable_table_is_named(server):
    unknown = dataclasses.replace(FRESH, name="unknown", share=1.0)
    with pytest.raises(KeyError, match="unknown"):
        from boonta.nodes.tables.reverb.dataset import ReverbDataset

        ReverbDataset([server], (unknown,), one_device(), SIGNATURE, Node("learner").wait_for, updates=0)
