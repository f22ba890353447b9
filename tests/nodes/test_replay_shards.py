"""Two replay servers with a part of a table each: what is written where, drawn from where, and saved where."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import time

import numpy as np
import pytest

from boonta.agents.base import Agent
from boonta.envs.catch import Catch
from boonta.nodes.base import Node
from boonta.nodes.snapshots import files, store
from boonta.nodes.snapshots.store import SnapshotFolder, numbers
from boonta.nodes.tables.contract import PRIORITY_FLOOR
from boonta.tests.helpers import tiny
from boonta.tests.helpers.damage import flip
from boonta.tests.helpers.written_steps import SIGNATURE, one_device, steps

pytestmark = pytest.mark.cluster
portpicker = pytest.importorskip("portpicker")
from boonta.nodes import replay  # noqa: E402
from boonta.nodes.tables.reverb.store import ReverbStore, connect, joined  # noqa: E402

SHARDS, BATCH, LENGTH = 2, 4, 6


def make(**fields) -> Agent:
    agent = tiny.make(Catch().spec, BATCH, LENGTH)
    fields = {"sampler": "proportional", "size": 40, "period": LENGTH, "samples_per_insert": None, **fields}
    return agent._replace(tables=(dataclasses.replace(agent.tables[0], kind="replay", **fields),))


AGENT = make()
(TABLE,) = AGENT.tables


class Servers:
    """Two replay servers in the test's folder, and what a node gets of them."""

    def __init__(self, folder):
        self.folder = folder / "replay"
        self.nodes: list[replay.Replay] = []
        self.opened: list = []

    def start(self) -> Servers:
        self.stop()
        for i in range(SHARDS):
            address = f"localhost:{portpicker.pick_unused_port()}"
            node = replay.Replay(f"replay/{i}", address, AGENT, Catch().spec, str(self.folder), shard=i, shards=SHARDS)
            node.start()
            self.nodes.append(node)
        return self

    def stop(self) -> None:
        for node in self.nodes:
            node._server.stop()
        for opened in self.opened:
            opened.close()
        self.nodes, self.opened = [], []

    def store(self, first: int = 0) -> ReverbStore:
        return joined([connect(f"localhost:{node._server.port}", lambda: SIGNATURE) for node in self.nodes], first)

    @property
    def sizes(self) -> list[int]:
        return [node._client.server_info()[TABLE.name].current_size for node in self.nodes]

    def priorities(self) -> dict[int, float]:
        """The priorities of all sequences, by key."""
        samples = [s for node in self.nodes for s in node._client.sample(TABLE.name, 100)]
        return {int(sample.key): float(sample.priority) for sample in samples}


@pytest.fixture
def servers(tmp_path):
    made = Servers(tmp_path)
    yield made.start()
    made.stop()


def write(store: ReverbStore, group: int, sequences: int, start: int = 0) -> None:
    """Writes sequences of one slot; the rewards of number i are from `start` + 6 i on."""
    writer = store.open_writer([TABLE], 1, Node("actor/0").wait_for, group)
    for t in range(LENGTH * sequences):
        writer.append(steps(start + t, 1))
    writer.flush()
    writer.close()


def test_each_server_has_its_part_of_the_table(servers):
    infos = [node._client.server_info()[TABLE.name] for node in servers.nodes]
    assert [info.max_size for info in infos] == [20, 20]


def test_groups_are_dealt_to_the_servers_in_turn(servers):
    write(servers.store(), 0, 1)
    assert servers.sizes == [1, 0]
    write(servers.store(), 1, 2)
    assert servers.sizes == [1, 2]
    write(servers.store(first=3), 0, 4)
    assert servers.sizes == [1, 6]
    write(servers.store(first=3), 1, 8)
    assert servers.sizes == [9, 6]


def test_batches_come_from_both_alike_and_priorities_reach_the_right_one(servers):
    for group in range(SHARDS):
        write(servers.store(), group, 3, start=1000 * group)
    dataset = servers.store().open_dataset([TABLE], one_device(), Node("learner").wait_for, updates=0)
    servers.opened.append(dataset)
    known: dict[int, float] = {}
    for number in range(1, 6):
        batch, drawn = dataset.next(60.0)
        first = np.asarray(batch.steps.reward)[0]
        assert batch.steps.observation.shape == (LENGTH, BATCH, 10, 5)
        assert sorted((first >= 1000).tolist()) == [False, False, True, True]
        np.testing.assert_array_equal(drawn.version, first + 2.5)
        dataset.prioritise(drawn, np.full(BATCH, number, np.float32))
        known |= dict.fromkeys(drawn.keys.tolist(), number + PRIORITY_FLOOR)
    deadline = time.monotonic() + 60.0  # Each server gets them in a thread of its own.
    while not all(servers.priorities().get(key) == pytest.approx(known[key]) for key in known):
        assert time.monotonic() < deadline, (servers.priorities(), known)


def test_a_reader_of_one_table_draws_from_both(servers):
    for group in range(SHARDS):
        write(servers.store(), group, 3, start=1000 * group)
    stream = servers.store().open_stream(TABLE, size=2, in_flight=2)
    servers.opened.append(stream)
    stream.ask(8)
    rewards = []
    for _ in range(4):
        piece = stream.take(2, 60.0)
        assert piece is not None
        rewards += piece.steps.reward[0].tolist()
    assert sum(reward >= 1000 for reward in rewards) == 4


def test_parts_are_saved_and_restored_under_one_number(servers, tmp_path):
    for group in range(SHARDS):
        write(servers.store(), group, 1 + group)
    with SnapshotFolder(tmp_path / "checkpoints", "checkpoint").writing(10, "replay") as new:
        new.mkdir()
    for node in servers.nodes:
        node.snapshot_request = (1, 10)
        node.round()
    assert [numbers(servers.folder / f"{i}_of_2") for i in range(SHARDS)] == [[10], [10]] and not numbers(
        servers.folder
    )
    assert servers.start().sizes == [1, 2]
    assert not any(node.warnings for node in servers.nodes)


def test_a_server_without_a_snapshot_says_so_where_the_learner_goes_on(servers, tmp_path):
    with SnapshotFolder(tmp_path / "checkpoints", "checkpoint").writing(10, "replay") as new:
        new.mkdir()
    servers.nodes[0].snapshot_request = (1, 10)
    servers.nodes[0].round()
    servers.start()
    assert not servers.nodes[0].warnings
    assert servers.nodes[1].warnings == [
        "the tables start empty, though the learner goes on from update 10: none were saved here"
    ]


def test_large_tables_are_read_once_by_their_own_server_which_finds_damage_in_them(servers, tmp_path, monkeypatch):
    for sequences, number in enumerate((10, 20), 1):
        for group, node in enumerate(servers.nodes):
            write(servers.store(), group, 1)
            node._save(number)
        with SnapshotFolder(tmp_path / "checkpoints", "checkpoint").writing(number, "replay") as new:
            new.mkdir()
            (new / "params").write_text(str(number))
        assert servers.sizes == [sequences, sequences]
    monkeypatch.setattr(store, "SMALL", 4)
    read: collections.Counter[pathlib.Path] = collections.Counter()
    digest = files.sha256
    monkeypatch.setattr(files, "sha256", lambda path: read.update([path]) or digest(path))
    assert servers.start().sizes == [2, 2] and not any(node.warnings for node in servers.nodes)
    tables = {path: times for path, times in read.items() if servers.folder in path.parents}
    assert {path.parts[-3:-1] for path in tables} == {("0_of_2", "20"), ("1_of_2", "20")}
    assert set(tables.values()) == {1}
    flip(servers.folder / "0_of_2" / "20" / "tables.tfrecord")
    assert servers.start().sizes == [1, 2]
    warnings = [" ".join(node.warnings) for node in servers.nodes]
    assert "0_of_2/20: tables.tfrecord is altered" in warnings[0] and not warnings[1]
    assert "the tables are those of update 10, since none that are sound are of 20" in warnings[0]
