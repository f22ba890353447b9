"""Several replay servers of a program: which programs can have them, and what their nodes are given."""

from __future__ import annotations

import dataclasses

import pytest

from boonta.agents import dqn, muzero, ppo
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.learner import Learner
from boonta.nodes.reanalyzer import Reanalyzer
from boonta.nodes.replay import Replay
from boonta.programs.wiring import several
from boonta.programs.wiring.checks import check_nodes
from boonta.programs.wiring.construction import node_arguments
from boonta.programs.wiring.launch import Program, Run, group


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
            [group(Actor), group(Reanalyzer)],
            {"make": muzero.make, "config": muzero.REANALYZE_CATCH},
            r"reanalyzer: 1 x 1 groups .* must be a multiple of 2, or that of replay servers one of \[1\]",
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
    actors, renewing = group(Actor, 3), group(Reanalyzer, 3)
    assert [several.first_group(actors, i) for i in range(3)] == [0, 2, 4]
    assert [several.first_group(dataclasses.replace(actors, settings={"threads": 3}), i) for i in range(3)] == [0, 3, 6]
    assert [several.first_group(renewing, i) for i in range(3)] == [0, 1, 2]
