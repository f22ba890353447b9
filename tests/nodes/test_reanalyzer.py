"""The reanalyzer between two tables: what it keeps, what it renews, what it counts."""

from __future__ import annotations

import contextlib
import dataclasses
import functools

import jax
import numpy as np
import pytest

from boonta.agents.base import Steps
from boonta.envs.catch import Catch
from boonta.nodes.base import Node
from boonta.nodes.tables.reverb.signature import unpack_columns
from boonta.nodes.tables.reverb.store import ReverbStore
from boonta.nodes.variables import VariableServer, pack
from boonta.tests.helpers import tiny
from boonta.tests.helpers.written_steps import SIGNATURE, steps

pytestmark = pytest.mark.cluster
portpicker = pytest.importorskip("portpicker")
from boonta.nodes import replay  # noqa: E402
from boonta.nodes.reanalyzer import Reanalyzer, recorded_table  # noqa: E402
from boonta.nodes.tables.reverb.client import Client  # noqa: E402

LENGTH = 6


def make():
    """The tiny agent with tables as an agent that reanalyzes has them."""
    agent = tiny.make(Catch().spec, batch_size=4, length=LENGTH)
    fresh = dataclasses.replace(
        agent.tables[0], kind="replay", sampler="uniform", period=2, size=100, samples_per_insert=None, share=0.5
    )
    past = dataclasses.replace(fresh, name="past", share=0.0)
    again = dataclasses.replace(fresh, name="again", writer="reanalyzer", period=LENGTH)
    return agent._replace(tables=(fresh, past, again))


@contextlib.contextmanager
def serving(folder, shards: int):
    """Replay servers with equal parts of the tables; gives a client of each."""
    addresses = [f"localhost:{portpicker.pick_unused_port()}" for _ in range(shards)]
    made = functools.partial(replay.Replay, agent=make(), spec=Catch().spec, folder=str(folder), shards=shards)
    nodes = [made(f"replay/{i}", address, shard=i) for i, address in enumerate(addresses)]
    for node in nodes:
        node.start()
    yield [Client(f"localhost:{node._server.port}") for node in nodes]
    for node in nodes:
        node._server.stop()


@pytest.fixture
def client(tmp_path):
    with serving(tmp_path, 1) as (only,):
        yield only


def write(client, numbers: int, action: int = 2) -> None:
    """Adds steps of two slots, with this action in all of them, as an actor does."""
    from boonta.nodes.tables.reverb.writer import ReverbWriter

    writer = ReverbWriter(client, make().tables[:2], 2, Node("actor/0").wait_for)
    for t in range(numbers):
        writer.append(steps(t, 2)._replace(action=np.full(2, action, np.int32)))
    writer.flush()
    writer.close()


def read(client, name: str, number: int) -> list[Steps]:
    return [unpack_columns(SIGNATURE, sample.columns) for sample in client.sample(name, number)]


def test_a_sequence_of_the_past_comes_back_with_new_extras_and_version_and_is_else_unchanged(client):
    agent, variables = make(), VariableServer("variables")
    params = {"linear": {"w": np.zeros((50, 3), np.float32)}}
    variables.put(7, pack(params))
    write(client, 10)
    node = Reanalyzer("reanalyzer/0", agent, Catch(), variables, ReverbStore([client], lambda: SIGNATURE), num_envs=4)
    node.start()
    node.wait_for("sequences", lambda _: node.ready() or None)
    for t in range(3 * LENGTH):
        if t == LENGTH + 2:
            variables.put(9, pack(params))
        node.step()
    assert client.server_info()["again"].current_size == 3 * 4
    before = {sequence.reward.tobytes(): sequence for sequence in read(client, "past", 200)}
    versions = set()
    for sequence in read(client, "again", 200):
        old = before[sequence.reward.tobytes()]  # One that was read is one that was written, from start to end.
        for name in ("observation", "step_type", "reward", "discount", "action"):
            jax.tree.map(np.testing.assert_array_equal, getattr(sequence, name), getattr(old, name))
        assert len(set(sequence.version)) == 1  # Params change between sequences only.
        versions.add(int(sequence.version[0]))
    assert versions == {7, 9}
    assert node.report()["counts"] == {"reanalyzed_steps": 4 * 3 * LENGTH, "reanalyzed_sequences": 12}
    assert not node.report()["samples"]
    node.close()


def test_one_reanalyzer_fills_two_servers_alike_and_reads_from_both(tmp_path):
    variables = VariableServer("variables")
    params = {"linear": {"w": np.zeros((50, 3), np.float32)}}
    variables.put(7, pack(params))
    with serving(tmp_path, 2) as clients:
        for action, each in enumerate(clients):  # So that it shows in a sequence where it comes from.
            write(each, 10, action)
        store = ReverbStore(clients, lambda: SIGNATURE)
        node = Reanalyzer("reanalyzer/0", make(), Catch(), variables, store, num_envs=4, groups=2)
        node.start()
        assert len(node.tasks) == 2
        for rounds in (1, 2):
            for t in range(2 * 3 * LENGTH):
                if rounds == 1 and t == 2 * LENGTH + 2:
                    variables.put(9, pack(params))  # Within the second sequences of both groups.
                node.step()
            sizes = [each.server_info()["again"].current_size for each in clients]
            assert sizes == [rounds * 3 * 2] * 2
        renewed = [read(each, "again", 100) for each in clients]
        node.close()
    for server in renewed:
        assert {int(sequence.action[0]) for sequence in server} == {0, 1}
        assert all(len(set(sequence.version)) == 1 for sequence in server)
        assert {int(sequence.version[0]) for sequence in server} == {7, 9}


def test_slots_that_do_not_divide_over_the_groups_are_refused():
    for groups, num_envs in ((2, 5), (0, 4)):
        with pytest.raises(ValueError, match=f"num_envs is {num_envs}; it must divide over the groups, {groups}"):
            Reanalyzer("reanalyzer/0", make(), Catch(), None, None, num_envs=num_envs, groups=groups)


def test_it_waits_for_the_past_by_name(client):
    variables = VariableServer("variables")
    node = Reanalyzer("reanalyzer/0", make(), Catch(), variables, ReverbStore([client], lambda: SIGNATURE), num_envs=2)
    node.start()
    assert not node.ready()
    node.meanwhile = node.stop  # This stops it after half a second.
    with pytest.raises(Exception) as stopped:
        node.step()
    assert type(stopped.value).__name__ == "Stopped"
    assert "waiting for sequences of past" in node.stopwatch.seconds()
    assert len(node.tasks) == 1  # One thread, for there is one server.


@pytest.mark.parametrize(
    ("keep", "changes", "message"),
    [
        (
            ("fresh",),
            {},
            "reanalyzers need a replay table to read and one to write to; the agent has .'trajectories'.",
        ),
        (("fresh", "past"), {}, "need a replay table to read and one to write to"),
        (("fresh", "again"), {}, "need a replay table to read"),
        (("fresh", "past", "again"), {"period": 2}, "'again' has sequences of 6 steps every 2; both must be 6"),
        (
            ("fresh", "past", "again"),
            {"sequence_length": 4},
            "'again' has sequences of 4 steps every 6; both must be 6",
        ),
    ],
)
def test_tables_that_a_reanalyzer_cannot_work_with_are_refused(keep, changes, message):
    tables = dict(zip(("fresh", "past", "again"), make().tables))
    tables["again"] = dataclasses.replace(tables["again"], **changes)
    with pytest.raises(ValueError, match=message):
        recorded_table([tables[name] for name in keep])
