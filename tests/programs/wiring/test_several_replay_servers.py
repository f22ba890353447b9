"""Several replay servers of a program: which programs can have them, and what their nodes are given."""

from __future__ import annotations

import collections
import dataclasses

import pytest

from boonta.agents import dqn, muzero, ppo
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.archive.reanalyzer import ArchiveReanalyzer
from boonta.nodes.learner import Learner
from boonta.nodes.reanalyzer import Reanalyzer
from boonta.nodes.replay import Replay
from boonta.programs.wiring import several
from boonta.programs.wiring.checks import check_nodes
from boonta.programs.wiring.construction import node_arguments
from boonta.programs.wiring.launch import Program, Run, group

REANALYZE = dataclasses.replace(muzero.CATCH, reanalyze_ratio=0.8)


class Old(Replay):
    """A replay server from before there could be several."""

    def __init__(self, name, address, agent, spec, folder, monitor=None):
        super().__init__(name, address, agent, spec, folder, monitor)


def program_of(tmp_path, *groups, servers: int = 2, make=dqn.make, config=dqn.CATCH, **run) -> Program:
    env = Catch()
    run = Run(workdir=str(tmp_path), replay_servers=servers, **run)
    return Program("p", run, make(config, env.spec), env, [group(Learner), *groups])


def test_each_server_has_a_part_of_the_tables_and_a_name(tmp_path):
    program = program_of(tmp_path, group(Actor))
    check_nodes(program)
    assert several.number_of(program, "replay") == 2
    (replay,) = (each for each in program.all_groups if each.node is Replay)
    assert replay.names == ("replay/0", "replay/1")
    given = [node_arguments(program, replay, i, {}) for i in range(2)]
    assert [(each["shard"], each["shards"]) for each in given] == [(0, 2), (1, 2)]
    assert {each["folder"] for each in given} == {str(tmp_path / "replay")}


def test_a_program_that_names_its_servers_decides_itself(tmp_path):
    program = program_of(tmp_path, group(Actor, 2), group(Replay, 4), servers=1)
    check_nodes(program)
    assert several.number_of(program, "replay") == 4


@pytest.mark.parametrize(
    ("groups", "settings", "message"),
    [
        (
            [group(Actor)],
            {"servers": 3},
            "table 'transitions': batch_size is 64; it must divide over 3 replay servers",
        ),
        (
            [group(Actor, 3, threads=1)],
            {},
            r"actor: 3 x 1 groups of environments can't be dealt to 2 replay servers alike: the number of nodes must "
            r"be a multiple of 2, or that of replay servers one of \[1, 3\]",
        ),
        ([group(Actor)], {"servers": 4}, r"the number of nodes must be a multiple of 2, .* one of \[1, 2\]"),
        (
            [group(Actor), group(Reanalyzer, groups=1)],
            {"make": muzero.make, "config": REANALYZE},
            r"reanalyzer: 1 x 1 groups .* must be a multiple of 2, or that of replay servers one of \[1\]",
        ),
        (
            [group(Actor), group(Reanalyzer, num_envs=5)],
            {"make": muzero.make, "config": REANALYZE},
            "reanalyzer: num_envs is 5; 1 of these nodes fill 2 replay servers alike in 2 groups of slots each: it "
            "must be a multiple of 2, or the number of nodes one of 2",
        ),
        (
            [group(Actor), group(Reanalyzer, groups=0)],
            {"make": muzero.make, "config": REANALYZE},
            "reanalyzer: groups is 0; it must be at least 1",
        ),
        ([group(Actor), group(Replay, 2)], {"servers": 1, "launch": "serial"}, "with --launch serial it can have one"),
        (
            [group(Actor), group(Replay)],
            {},
            "replay_servers is 2, and the program itself names 1: leave it out, or change",
        ),
        ([group(Actor), group(Old, 2)], {}, "replay: Old takes no `shard`, and so can't be one of 2 replay servers"),
        (
            [group(Actor)],
            {"make": ppo.make, "config": ppo.CATCH},
            "max_staleness is 0, so that its sequences must come in the order in which they were written; 2 replay",
        ),
    ],
)
def test_what_several_servers_can_not_share_is_refused(tmp_path, groups, settings, message):
    with pytest.raises(ValueError, match=message):
        check_nodes(program_of(tmp_path, *groups, **settings))


@pytest.mark.parametrize("launch", ["serial", "sebulba", "anakin"])
def test_ways_to_run_with_one_server_refuse_more(launch):
    with pytest.raises(ValueError, match=f"replay_servers is 2; with --launch {launch} it must be 1: leave it out"):
        Run(launch=launch, replay_servers=2)
    with pytest.raises(ValueError, match="replay_servers is 0; it must be at least 1"):
        Run(replay_servers=0)


def test_the_groups_of_all_nodes_are_dealt_in_turn():
    actors, three = group(Actor, 3), group(Actor, 3, threads=3)
    assert [several.first_group(actors, i, 2) for i in range(3)] == [0, 2, 4]
    assert [several.first_group(three, i, 3) for i in range(3)] == [0, 3, 6]


@pytest.mark.parametrize(
    ("number", "servers", "groups"), [(1, 1, 1), (1, 2, 2), (2, 2, 1), (3, 2, 2), (2, 4, 2), (4, 6, 3), (4, 2, 1)]
)
@pytest.mark.parametrize("node", [Reanalyzer, ArchiveReanalyzer])
def test_reanalyzers_have_as_many_groups_as_fill_all_servers_alike(node, number, servers, groups):
    """Each group writes to the server of its number, and has a number of its own."""
    renewing = group(node, number)
    assert several.slot_groups(renewing, servers) == groups
    first = [several.first_group(renewing, i, servers) for i in range(number)]
    written = collections.Counter((n + k) % servers for n in first for k in range(groups))
    assert set(written) == set(range(servers)) and len(set(written.values())) == 1


def test_a_reanalyzer_is_given_its_groups(tmp_path):
    program = program_of(tmp_path, group(Actor), group(Reanalyzer), make=muzero.make, config=REANALYZE)
    check_nodes(program)
    arguments = [node_arguments(program, each, 0, {}) for each in program.groups if each.node in (Actor, Reanalyzer)]
    assert [each.get("groups") for each in arguments] == [None, 2]
