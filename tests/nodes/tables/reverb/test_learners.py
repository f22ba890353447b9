"""Several learners draw from one replay server: each gets its part of a batch, and no sequence of a queue twice."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest

from boonta.envs.catch import Catch
from boonta.nodes.base import Node
from boonta.nodes.tables.reverb.store import ReverbStore, joined
from boonta.tests.helpers import tiny
from boonta.tests.helpers.written_steps import SIGNATURE, one_device, steps

pytestmark = pytest.mark.cluster
portpicker = pytest.importorskip("portpicker")
from boonta.nodes import replay  # noqa: E402
from boonta.nodes.tables.reverb.client import Client  # noqa: E402

BATCH, SEQUENCES = 8, 60
UPDATES = 100  # More than the versions of all steps.
MOMENT_S = 0.5  # In which Reverb would have fetched ahead.


@pytest.fixture(params=["queue", "replay"])
def table(request):
    """The tiny agent's table, as a queue, as a replay table, and as a queue whose data must be fresh."""
    (own,) = tiny.make(Catch().spec, BATCH, length=3).tables
    own = dataclasses.replace(own, size=100, period=1)
    free = {"kind": "replay", "sampler": "uniform", "samples_per_insert": None}
    fresh = {"period": own.sequence_length, "max_staleness": UPDATES}
    return dataclasses.replace(own, **{"queue": {}, "replay": free, "fresh": fresh}[request.param])


@pytest.fixture
def client(table, tmp_path):
    agent = tiny.make(Catch().spec)._replace(tables=(table,))
    node = replay.Replay("replay", f"localhost:{portpicker.pick_unused_port()}", agent, Catch().spec, str(tmp_path))
    node.start()
    client = Client(f"localhost:{node._server.port}")
    writer = ReverbStore([client]).open_writer([table], 1, node.wait_for, 0)
    for t in range(table.sequence_length - 1 + SEQUENCES):  # The first reward of sequence number i is i.
        writer.append(steps(t, 1))
    writer.flush()
    writer.close()
    yield client
    node._server.stop()


def test_each_draws_its_part_of_a_batch(client, table):
    stores = [joined([ReverbStore([client], lambda: SIGNATURE)], learners=2) for _ in range(2)]
    datasets = [store.open_dataset([table], one_device(), Node("learner").wait_for, updates=0) for store in stores]
    drawn = [[], []]
    for _ in range(3):
        for i, dataset in enumerate(datasets):
            batch, origin = dataset.next(30.0)
            assert len(origin.keys) == BATCH // 2
            drawn[i] += np.asarray(batch.steps.reward[0]).tolist()
    assert all(len(each) == 3 * BATCH // 2 for each in drawn)
    if table.kind == "queue":
        assert len({*drawn[0], *drawn[1]}) == 3 * BATCH
    for dataset in datasets:
        dataset.close()


@pytest.mark.parametrize("table", ["fresh"], indirect=True)
def test_of_data_that_must_be_fresh_each_draws_its_part_when_it_asks_and_no_more(client, table):
    stores = [joined([ReverbStore([client], lambda: SIGNATURE)], learners=2) for _ in range(2)]
    datasets = [
        store.open_dataset([table], one_device(), Node("learner").wait_for, updates=UPDATES) for store in stores
    ]
    drawn = []
    for asked, dataset in enumerate([*datasets, *datasets], 1):
        batch, _ = dataset.next(30.0)
        drawn.append(np.asarray(batch.steps.reward[0]).tolist())
        time.sleep(MOMENT_S)
        completed = client.server_info()[table.name].rate_limiter_info.sample_stats.completed
        assert completed == asked * BATCH // 2
    rewards = [i * table.sequence_length for i in range(4 * BATCH // 2)]  # In the order in which they were written.
    assert sum(drawn, []) == rewards
    for dataset in datasets:
        dataset.close()
