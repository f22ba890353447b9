"""Replay tables: how often and with which probability sequences are drawn, and priorities that come back."""

from __future__ import annotations

import dataclasses
import signal
import threading
import time

import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Agent
from boonta.envs.catch import Catch
from boonta.nodes import metrics
from boonta.nodes.base import Node
from boonta.nodes.tables.reverb.signature import unpack_columns
from boonta.tests.helpers import tiny
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.written_steps import SIGNATURE, one_device, steps

pytestmark = pytest.mark.cluster
portpicker = pytest.importorskip("portpicker")
from boonta.nodes import replay  # noqa: E402
from boonta.nodes.tables.reverb.client import Client  # noqa: E402


def make(batch_size: int = 4, length: int = 6, **fields) -> Agent:
    """The tiny agent on a replay table; its priorities are the sequences' mean squared rewards."""
    agent = tiny.make(Catch().spec, batch_size, length)
    fields = {"sampler": "uniform", "size": 100, "period": 1, **fields}
    table = dataclasses.replace(agent.tables[0], kind="replay", **fields)

    def step(state, batch):
        state, _, metrics = agent.update.step(state, batch)
        return state, jnp.mean(batch.steps.reward**2, axis=0), metrics

    return agent._replace(tables=(table,), update=agent.update._replace(step=step))


class Serve:
    """A replay server with one table, while `with` lasts."""

    def __init__(self, agent: Agent, folder):
        (self.table,) = agent.tables
        self.node = replay.Replay(
            "replay", f"localhost:{portpicker.pick_unused_port()}", agent, Catch().spec, str(folder)
        )

    def __enter__(self):
        self.node.start()
        self.client = Client(f"localhost:{self.node._server.port}")
        self.opened = []
        return self

    def __exit__(self, *_):
        self.node._server.stop()  # first: of a table that is open readers in its process take 3 s to let go
        for dataset in self.opened:
            dataset.close()
            dataset._filler.join(DEADLINE_S)
            assert not dataset._filler.is_alive()

    def counts(self) -> tuple[int, int]:
        limiter = self.client.server_info()[self.table.name].rate_limiter_info
        return limiter.insert_stats.completed, limiter.sample_stats.completed

    def dataset(self):
        from boonta.nodes.tables.reverb.dataset import ReverbDataset

        wait_for = self.node.wait_for
        self.opened.append(ReverbDataset([self.client], [self.table], one_device(), SIGNATURE, wait_for, updates=0))
        return self.opened[-1]

    def write(self, sequences: int, node: Node | None = None) -> None:
        """Adds sequences; the first reward of number i is i."""
        from boonta.nodes.tables.reverb.writer import ReverbWriter

        writer = ReverbWriter(self.client, [self.table], 1, (node or self.node).wait_for)
        for t in range(self.table.sequence_length - 1 + sequences):
            writer.append(steps(t, 1))
        writer.flush()
        writer.close()


def drain(dataset) -> int:
    """Takes batches until there are none; how many."""
    taken = 0
    while dataset.next(30.0 if dataset.ready() else 0.0) is not None:
        taken += 1
    return taken


@pytest.mark.parametrize(("ratio", "batch_size", "min_size"), [(0.5, 4, 1), (8.0, 16, 2)])
def test_the_ratio_is_held_when_the_reader_is_faster(tmp_path, ratio, batch_size, min_size):
    with Serve(make(batch_size, samples_per_insert=ratio, min_size=min_size), tmp_path) as server:
        dataset = server.dataset()
        for _ in range(3):
            server.write(min_size + 3)
            drain(dataset)
            inserted, sampled = server.counts()
            owed = ratio * (inserted - min_size)
            assert owed <= sampled <= owed + batch_size
        server.node.round()
        measured = server.node.report()["metrics"]
        # Batches are drawn ahead meanwhile.
        least, most = sampled / inserted, server.counts()[1] / inserted
        assert least <= measured["trajectories/samples_per_insert"] <= most


@pytest.mark.parametrize(
    ("ratio", "batch_size", "min_size", "share", "limit"),
    [
        (0.5, 4, 1, 1.0, 4.5),
        (4.0, 4, 5, 0.5, 14.0),
        (8.0, 1, 1, 0.1, 16.0),  # Reverb demands this much.
    ],
)
def test_the_ratio_is_held_when_the_writer_is_faster(tmp_path, ratio, batch_size, min_size, share, limit):
    agent = make(batch_size, samples_per_insert=ratio, min_size=min_size, share=share)
    with Serve(agent, tmp_path) as server:
        node, total = Node("actor/0"), 200
        thread = threading.Thread(target=server.write, args=(total, node), daemon=True)
        thread.start()
        owed = lambda inserted: ratio * (inserted - min_size)  # noqa: E731
        node.wait_for("the limiter", lambda _: owed(server.counts()[0] + 1) > limit or None, deadline_s=60)
        deadline = time.monotonic() + 60
        while node.stopwatch.longest()[0] != "waiting for room in trajectories":
            assert time.monotonic() < deadline, node.stopwatch.longest()
            time.sleep(0.01)
        node.sleep(0.2)
        inserted, sampled = server.counts()
        assert sampled == 0 and owed(inserted) <= limit
        dataset = server.dataset()
        while thread.is_alive():
            dataset.next(0.1)
            before = server.counts()
            assert -batch_size <= owed(before[0]) - before[1] <= limit
        assert server.counts()[0] == total  # all of them came in


def test_ready_says_whether_the_limiter_lets_the_next_batch_through(tmp_path):
    with Serve(make(4, samples_per_insert=2.0, min_size=4), tmp_path) as server:
        dataset = server.dataset()
        server.write(3)
        assert not dataset.ready()
        server.write(1)
        for _ in range(2):  # A batch ahead, and then one for each two sequences.
            assert dataset.ready()
            assert dataset.next(30.0) is not None
            assert not dataset.ready()
            server.write(1)
            assert not dataset.ready()
            server.write(1)
        assert dataset.ready()
        assert dataset.next(30.0) is not None


def test_a_dataset_that_is_closed_with_a_batch_ahead_ends_its_thread(tmp_path):
    with Serve(make(4, samples_per_insert=2.0, min_size=4), tmp_path) as server:
        dataset = server.dataset()
        server.write(4)
        end = time.monotonic() + DEADLINE_S
        while dataset._batches.empty():
            assert time.monotonic() < end
            time.sleep(0.02)


def test_a_writer_fills_all_its_tables_and_stores_each_step_once(tmp_path):
    from boonta.nodes.tables.reverb.writer import ReverbWriter

    table = make(period=2).tables[0]
    tables = (table, dataclasses.replace(table, name="past", share=0.0, samples_per_insert=None))
    agent = make()._replace(tables=tables)
    node = replay.Replay("replay", f"localhost:{portpicker.pick_unused_port()}", agent, Catch().spec, str(tmp_path))
    node.start()
    client = Client(f"localhost:{node._server.port}")
    writer = ReverbWriter(client, tables, 2, node.wait_for)
    assert sum(writer.append(steps(t, 2)) for t in range(10)) == 2 * 3
    writer.flush()
    rewards = {}
    for name, info in client.server_info().items():
        assert info.current_size == 6
        drawn = client.sample(name, 64) if name == "past" else ()
        rewards[name] = {tuple(unpack_columns(SIGNATURE, sample.columns).reward) for sample in drawn}
    expected = {tuple(100.0 * slot + start + np.arange(6)) for slot in (0, 1) for start in (0, 2, 4)}
    assert rewards["past"] == expected
    node._server.stop()


def test_an_append_that_the_limiter_has_no_room_for_goes_in_as_batches_are_drawn(tmp_path):
    from boonta.nodes.tables.reverb.writer import ReverbWriter

    with Serve(make(4, samples_per_insert=4.0, min_size=1, period=4), tmp_path) as server:
        node = Node("actor/0")
        writer = ReverbWriter(server.client, [server.table], 32, node.wait_for)  # room for 3
        for t in range(5):
            writer.append(steps(t, 32))
        thread = threading.Thread(target=writer.append, args=(steps(5, 32),), daemon=True)
        thread.start()
        dataset = server.dataset()
        for _ in range(32):
            assert dataset.next(30.0) is not None
        thread.join(timeout=30)
        assert not thread.is_alive() and server.counts()[0] == 32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 50}, "size of 'trajectories' was 100, is 50"),
        ({"samples_per_insert": 2.0}, "samples_per_insert of 'trajectories' was 1.0, is 2.0"),
        ({"period": 3}, "period of 'trajectories' was 1, is 3"),
        ({"sampler": "rank"}, "sampler of 'trajectories' was uniform: true"),
        ({"length": 7}, r"steps of 'trajectories' was 6 x observation:float32\[10, 5\] .*, is 7 x observation:float32"),
    ],
)
def test_tables_saved_with_other_settings_are_refused(tmp_path, changes, message):
    with Serve(make(), tmp_path) as server:
        server.write(3)
        server.node.close()
    with Serve(make(), tmp_path) as server:
        assert server.counts()[0] == 3
    with pytest.raises(ValueError, match=f"{tmp_path} holds tables made with other settings: .*{message}"):
        Serve(make(**changes), tmp_path).node.start()


@pytest.mark.parametrize("sampler", ["uniform", "proportional", "rank"])
def test_the_serial_schedule_holds_the_ratio_and_ends(tmp_path, monkeypatch, sampler):
    from boonta.nodes.watch.stopping import StopRule
    from boonta.programs.wiring import launch
    from boonta.programs.wiring.interpreters import serial
    from boonta.tests.helpers.tiny_program import tiny_program

    agent = make(8, sampler=sampler, samples_per_insert=4.0, min_size=50, size=200)
    monkeypatch.setattr(tiny, "make", lambda spec, batch_size: agent)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert serial.run(tiny_program(launch.Run(workdir=str(tmp_path), stop=StopRule(updates=400)))) == 0
    finally:
        signal.signal(signal.SIGTERM, handler)
    row = metrics.read(tmp_path)[-1]
    assert row["updates"] >= 400  # long enough for the replay to have told its counts
    owed = 4 * row["trajectories/inserted"] - row["trajectories/sampled"]
    assert -8 <= owed <= 2 * 4 * 50 + 8
