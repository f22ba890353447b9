"""Tables that don't fit into memory are told before anything starts, wherever they are kept."""

from __future__ import annotations

import dataclasses
import re
import types

import jax
import pytest

from boonta.agents.base import Table
from boonta.envs.catch import Catch
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.actor import Actor
from boonta.nodes.base import Node
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.hosts.placement import Placement
from boonta.nodes.learner import Learner
from boonta.nodes.population import Population
from boonta.nodes.reanalyzer import Reanalyzer
from boonta.nodes.tables.contract import bytes_when_full
from boonta.programs.wiring import capacity, launch
from boonta.programs.wiring.machine import memory
from boonta.programs.wiring.program import Group, Program, group
from boonta.programs.wiring.run import Run
from boonta.tests.helpers import tiny
from boonta.tests.helpers.solo_program import solo_program

AGENT = tiny.make(Catch().spec)
QUEUE = dataclasses.replace(AGENT.tables[0], size=100)
REPLAY = Table("past", "replay", 5, 4, 8, size=100, sampler="uniform", min_size=8)
FULL = bytes_when_full(QUEUE, step_shapes(AGENT, Catch().spec))  # Of either table.
GROUPS = (group(Learner), group(Actor))
GENEROUS = capacity._generous(Program("program", Run(), AGENT, Catch(), GROUPS))
CLUSTER = ("local_mp", "local_mt", "serial")


def program(launch: str, *tables: Table, groups: tuple[Group, ...] = GROUPS, **run) -> Program:
    return Program("program", Run(launch=launch, **run), AGENT._replace(tables=tables), Catch(), groups)


def has(monkeypatch, total: float, free: float | None = None) -> None:
    """Gives the machine some memory, in full tables."""
    room = memory.Room(int(total * FULL), int((total if free is None else free) * FULL))
    monkeypatch.setattr(memory, "room", lambda: room)


@pytest.mark.parametrize("way", [*CLUSTER, "sebulba", "anakin"])
def test_what_fits_is_fine_and_what_may_not_is_warned_of(monkeypatch, way):
    has(monkeypatch, total=4, free=1)
    assert capacity.check(program(way, REPLAY)) == ""
    has(monkeypatch, total=4, free=0.9)
    told = capacity.check(program(way, REPLAY))
    assert re.match("full tables take up to past .* GB.* are free: if this run ends for lack of memory, lower", told)
    assert told.endswith("(--config.replay.size)") and ("before compression" in told) == (way in CLUSTER)


@pytest.mark.parametrize(("way", "fits"), [*((way, 21.3) for way in CLUSTER), ("sebulba", 1), ("anakin", 1)])
def test_what_can_never_fit_is_refused_with_the_setting_and_what_is_allowed(monkeypatch, way, fits):
    has(monkeypatch, total=1.01 / fits, free=0)
    assert capacity.check(program(way, REPLAY))
    has(monkeypatch, total=0.5 / fits)
    words = r"table 'past': size is 100; full tables take .*, so that it must be at most (\d+) \(--config.replay.size\)"
    with pytest.raises(ValueError, match=words) as refused:
        capacity.check(program(way, REPLAY))
    assert 48 <= int(re.search(words, str(refused.value))[1]) <= 51  # type: ignore[index]


def test_the_tables_of_all_writers_count_and_the_largest_is_named(monkeypatch):
    has(monkeypatch, total=4, free=1.89)
    small, large = (dataclasses.replace(table, share=0.5) for table in (REPLAY, QUEUE))
    small = dataclasses.replace(small, size=90, writer="reanalyzer")
    same = dataclasses.replace(large, name="same", share=0.0, size=99)  # It has no rows of its own.
    groups = (*GROUPS, group(Reanalyzer))
    assert "table 'trajectories' (--config.queue-size)" in capacity.check(
        program("local_mp", small, large, same, groups=groups)
    )
    has(monkeypatch, total=4, free=1.91)
    assert capacity.check(program("local_mp", small, large, same, groups=groups)) == ""


def test_a_host_of_several_keeps_its_share(monkeypatch):
    has(monkeypatch, total=4, free=0.5)
    hosts = Hosts(coordinator="host:1", number=2, index=0)
    assert capacity.check(program("sebulba", REPLAY)) and not capacity.check(program("sebulba", REPLAY, hosts=hosts))


def test_each_member_of_a_population_has_a_table(monkeypatch):
    has(monkeypatch, total=4, free=3)
    for number in (1, 4):
        for settings in ({"seeds": number}, {"vary": {"a": [0.0] * number}}, {"members": [{}] * number, "seeds": 9}):
            members = (group(Population, **settings),)
            assert bool(capacity.check(program("anakin", REPLAY, groups=members))) == (number == 4)


@pytest.mark.parametrize(("way", "table"), [("sebulba", QUEUE), ("anakin", REPLAY)])
def test_tables_on_devices_are_measured_by_the_devices_memory(monkeypatch, way, table):
    device = types.SimpleNamespace(
        platform="gpu", memory_stats=lambda: {"bytes_limit": 2 * FULL, "bytes_in_use": int(1.5 * FULL)}
    )
    monkeypatch.setattr(jax, "devices", lambda: [device])
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    has(monkeypatch, total=100)
    assert "of the memory of 1 gpu device are free" in capacity.check(program(way, table))
    with pytest.raises(ValueError, match="1 gpu device has .* it must be at most 200 "):
        capacity.check(program(way, dataclasses.replace(table, size=1_000)))


@pytest.mark.parametrize(
    ("replay", "full", "on_device"),
    [("auto", 0.49, True), ("auto", 0.51, False), ("device", 0.9, True), ("host", 0.1, False)],
)
def test_sebulba_replays_on_a_device_that_has_room_or_as_it_is_told(monkeypatch, replay, full, on_device):
    stats = {"bytes_limit": 3 * 10**9, "bytes_in_use": 10**9}
    device = types.SimpleNamespace(platform="gpu", memory_stats=lambda: stats)
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    table = dataclasses.replace(REPLAY, size=int(2e9 * full / bytes_when_full(REPLAY, GENEROUS) * REPLAY.size))
    has(monkeypatch, total=100)
    sebulba = program("sebulba", table, placement=Placement(replay=replay))
    assert capacity.replays_on_device(sebulba, [table], device) == on_device
    assert not capacity.replays_on_device(program("sebulba", table), [table], jax.devices("cpu")[0])


def test_a_replay_too_large_for_the_device_that_is_to_keep_it_is_refused(monkeypatch):
    device = types.SimpleNamespace(platform="gpu", memory_stats=lambda: {"bytes_limit": 2 * FULL})
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    has(monkeypatch, total=100)
    table = dataclasses.replace(REPLAY, size=1_000)
    assert capacity.check(program("sebulba", table)) == ""
    with pytest.raises(ValueError, match="1 gpu device has .* it must be at most 200 "):
        capacity.check(program("sebulba", table, placement=Placement(replay="device")))


@pytest.mark.parametrize("way", [*CLUSTER, "sebulba"])
@pytest.mark.parametrize("name", ["updates_per_step", "the agent's update.at_once"])
def test_more_batches_at_once_than_memory_holds_are_refused(monkeypatch, way, name):
    def with_updates(updates: int) -> Program:
        if name == "updates_per_step":
            return program(way, REPLAY, groups=(group(Learner, updates_per_step=updates), group(Actor)))
        made = program(way, REPLAY)
        agent = made.agent._replace(update=made.agent.update._replace(at_once=updates))
        return dataclasses.replace(made, agent=agent)

    has(monkeypatch, total=4)  # A batch is a tenth of a full table: 8 sequences of 5 rows, of 100 that share all but 4.
    assert capacity.check(with_updates(40)) == ""
    with pytest.raises(ValueError, match=f"learner: {name} is 41; this many batches take .* GB, and this machine has "):
        capacity.check(with_updates(41))
    with pytest.raises(ValueError, match="it must be at most 40 \\(--updates-per-step\\)"):
        capacity.check(with_updates(1_000_000_000))


def test_a_host_of_several_holds_its_share_of_the_batches(monkeypatch):
    has(monkeypatch, total=4)
    learner = (group(Learner, updates_per_step=80), group(Actor))
    hosts = Hosts(coordinator="host:1", number=2, index=0)
    assert capacity.check(program("sebulba", REPLAY, groups=learner, hosts=hosts)) == ""
    with pytest.raises(ValueError, match="at most 40 "):
        capacity.check(program("sebulba", REPLAY, groups=learner))


def test_policies_are_traced_only_where_it_is_close_and_leave_accelerators_alone(monkeypatch):
    configured: list[tuple] = []
    monkeypatch.setattr(jax.config, "update", lambda *given: configured.append(given))
    monkeypatch.setattr(capacity, "signature_of", lambda program: pytest.fail("the policy was traced"))
    has(monkeypatch, total=100)
    for way in ("local_mp", "sebulba"):
        assert capacity.check(program(way, REPLAY)) == "" and not configured
    monkeypatch.undo()
    monkeypatch.setattr(jax.config, "update", lambda *given: configured.append(given))
    has(monkeypatch, total=2, free=1)
    assert capacity.check(program("local_mp", REPLAY)) == ""
    assert configured == [("jax_platforms", "cpu")]


def test_a_learner_that_checks_its_own_batches_keeps_its_accelerator(monkeypatch):
    configured: list[tuple] = []
    monkeypatch.setattr(jax.config, "update", lambda *given: configured.append(given))
    has(monkeypatch, total=4)
    close = program("local_mp", REPLAY, groups=(group(Learner, updates_per_step=40), group(Actor)))
    capacity.require_room_for_batches(close, learns_here=True)
    assert not configured
    capacity.require_room_for_batches(close)
    assert configured == [("jax_platforms", "cpu")]


def test_a_fused_program_has_no_queue_and_a_program_without_a_replay_server_no_tables(monkeypatch):
    has(monkeypatch, total=0)
    assert capacity.check(program("anakin", QUEUE)) == ""
    assert capacity.check(program("local_mp", QUEUE, groups=())) == ""


def test_a_machine_that_does_not_tell_its_memory_is_trusted(monkeypatch):
    monkeypatch.setattr(memory, "room", lambda: None)
    assert capacity.check(program("local_mp", QUEUE)) == ""


def test_it_is_told_at_the_start_and_in_the_runs_log(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(launch, "prepare", lambda program: lambda: 0)
    monkeypatch.setattr(capacity, "check", lambda program: "tables are too large")
    with pytest.raises(SystemExit) as ended:
        launch.main(solo_program, ["--workdir", str(tmp_path)])
    assert not ended.value.code
    assert capsys.readouterr().out == f"run folder {tmp_path}\nwarning: tables are too large\n"
    assert "WARNING tables are too large" in (tmp_path / "run.log").read_text()


def test_a_refusal_leaves_nothing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(launch, "prepare", lambda program: lambda: 0)
    has(monkeypatch, total=0.001)
    with pytest.raises(SystemExit) as ended:
        launch.main(solo_program, ["--workdir", str(tmp_path / "run"), "--launch", "sebulba"])
    assert ended.value.code == 2 and "table 'trajectories': size is 32; " in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


class Own(Node):
    """A learner that has its data from elsewhere."""

    role = "learner"

    def __init__(self, name: str, monitor=None, updates_per_step: int = 8):
        super().__init__(name, monitor)


def test_batches_of_a_learner_with_data_of_its_own_are_its_own_affair(monkeypatch):
    has(monkeypatch, total=0.001)
    for agent in (None, AGENT._replace(tables=())):
        assert capacity.check(Program("own", Run(), agent, Catch(), (group(Own),))) == ""


def test_a_single_batch_that_is_too_large_is_told(monkeypatch):
    has(monkeypatch, total=0.001)
    groups = (group(Learner, updates_per_step=8), group(Actor))
    with pytest.raises(ValueError, match="GB of memory, less than a single batch takes$"):
        capacity.require_room_for_batches(program("local_mp", REPLAY, groups=groups))
