"""Actors beyond those that a program names: which may join, and what they get."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from boonta.agents import muzero, ppo
from boonta.agents.base import Slots
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.base import Node
from boonta.nodes.learner import Learner
from boonta.programs.wiring import joining
from boonta.programs.wiring.construction import construct, node_arguments
from boonta.programs.wiring.joining import FILE, MOST, Servers, read_servers, with_joined
from boonta.programs.wiring.launch import group
from boonta.programs.wiring.program import Program
from boonta.programs.wiring.run import BadInput, Run


def program_of(tmp_path, agent=None, **settings) -> Program:
    env = Catch()
    groups = [group(Learner), group(Actor, 2, num_envs=8), group(Actor, 3, label="explorer", num_envs=4)]
    run = Run(workdir=str(tmp_path), **settings)
    return Program("c", run, agent or muzero.make(muzero.CATCH, env.spec), env, groups)


def arguments(program: Program, label: str, i: int) -> dict:
    (group,) = (each for each in program.groups if each.label == label)
    return node_arguments(program, group, i, {})


def test_who_joins_is_numbered_on_has_a_seed_of_its_own_and_slots_beyond_those_of_the_others(tmp_path):
    program = program_of(tmp_path)
    own = [arguments(program, label, i) for label, number in (("actor", 2), ("explorer", 3)) for i in range(number)]
    joined = [arguments(with_joined(program, "actor", i), "actor", i) for i in (2, 3)]
    joined.append(arguments(with_joined(program, "explorer", 4), "explorer", 4))
    assert [each["slots"] for each in joined] == [Slots(8, 28, 28), Slots(8, 40, 28), Slots(4, 48, 28)]
    assert [each["num_envs"] for each in joined] == [8, 8, 4]
    assert [each["name"] for each in joined] == ["actor/2", "actor/3", "explorer/4"]
    for label, taken in (("actor", own[:2]), ("explorer", own[2:])):
        seeds = [each["seed"] for each in (*taken, *joined) if each["name"].startswith(label)]
        assert len(set(seeds)) == len(seeds)


def test_the_others_stay_as_they_are_and_the_node_can_be_made(tmp_path):
    program = program_of(tmp_path)
    larger = with_joined(program, "actor", 7)
    for name in ("seed", "name"):
        assert arguments(larger, "actor", 0)[name] == arguments(program, "actor", 0)[name]
    handles = {"variables": None, "replay": None, "monitor": None}
    assert construct(larger, larger.groups[1], 7, handles).name == "actor/7"


@pytest.mark.parametrize(
    ("label", "index", "launch", "message"),
    [
        ("learner", 1, "local_mp", r"'learner' can't be joined; of this program's groups \['actor', 'explorer'\] can"),
        ("actr", 5, "local_mp", "'actr' can't be joined"),
        ("actor", 2, "sebulba", "--launch sebulba has all its actors from the start"),
        ("actor", 2, "anakin", "--launch anakin has all"),
        ("actor", 2, "serial", "--launch serial has all"),
        ("actor", 2 + MOST, "local_mp", "index 10002 is too large"),
    ],
)
def test_what_cannot_be_joined_is_refused_by_name(tmp_path, label, index, launch, message):
    with pytest.raises(BadInput, match=message):
        with_joined(program_of(tmp_path, launch=launch), label, index)


def test_actors_whose_environments_must_fit_a_batch_are_refused(tmp_path):
    agent = ppo.make(ppo.CATCH, Catch().spec)
    with pytest.raises(BadInput, match="'actor' can't be joined: table 'trajectories' has max_staleness 0"):
        with_joined(program_of(tmp_path, agent), "actor", 2)


class Watcher(Actor):
    """An actor of the user's own, which takes its slots alone."""

    def __init__(self, name, slots):
        Node.__init__(self, name)
        self.slots = slots


def test_an_actor_that_takes_slots_and_no_number_of_them_can_join(tmp_path):
    program = program_of(tmp_path)
    program = dataclasses.replace(program, groups=[program.groups[0], group(Watcher, label="own")])
    larger = with_joined(program, "own", 1)
    assert construct(larger, larger.groups[1], 1, {}).slots.size > 0


def test_servers_are_in_the_folder_meanwhile_and_a_disk_that_takes_no_file_ends_nothing(tmp_path, monkeypatch, caplog):
    servers = Servers({"monitor": "unix:m"}, process=7)
    with servers.shown(tmp_path):
        assert read_servers(tmp_path) == servers
        monkeypatch.setattr(pathlib.Path, "unlink", fail)
    monkeypatch.undo()
    (tmp_path / FILE).unlink()
    with pytest.raises(BadInput, match="no program that can be joined runs in .*: the run has ended, or its nodes"):
        read_servers(tmp_path)
    monkeypatch.setattr(joining.files, "write_whole", fail)
    with servers.shown(tmp_path):
        assert "no node can join" in caplog.text
    with servers.shown(tmp_path), pytest.raises(BadInput, match="no program that can be joined runs in"):
        read_servers(tmp_path)


def fail(*_, **__):
    raise OSError("the disk is gone")


@pytest.mark.parametrize("content", ['{"addresses": {"variables": "unix:v"}}', "{}", "["])
def test_a_file_without_the_monitors_address_is_refused(tmp_path, content):
    (tmp_path / FILE).write_text(content)
    with pytest.raises(BadInput, match=r"servers.json can't be read"):
        read_servers(tmp_path)
