"""Several learners of a program: which programs can have them, and what their nodes are given."""

from __future__ import annotations

import dataclasses

import pytest

from boonta.agents import dqn, muzero
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.learner import Learner
from boonta.nodes.reanalyzer import Reanalyzer
from boonta.programs.wiring import several
from boonta.programs.wiring.checks import check_nodes
from boonta.programs.wiring.construction import node_arguments, seeds_of
from boonta.programs.wiring.interpreters import local
from boonta.programs.wiring.launch import Program, Run, group
from boonta.programs.wiring.machine import accelerators
from boonta.programs.wiring.run import BadInput

REANALYZE = dataclasses.replace(muzero.CATCH, reanalyze_ratio=0.8)


class Lone(Learner):
    """A learner from before there could be several."""

    def __init__(self, name, agent, spec, replay, variables, monitor=None, *, folder):
        super().__init__(name, agent, spec, replay, variables, monitor, folder=folder)


def program_of(tmp_path, *groups, number: int = 2, make=dqn.make, config=dqn.CATCH, **run) -> Program:
    env = Catch()
    run = Run(workdir=str(tmp_path), learners=number, **run)
    return Program("p", run, make(config, env.spec), env, groups)


def test_each_learner_has_a_name_and_all_have_one_seed_and_one_folder(tmp_path):
    program = program_of(tmp_path, group(Learner), group(Actor), seed=7)
    check_nodes(program)
    (found,) = (each for each in program.all_groups if each.node is Learner)
    assert found.names == ("learner/0", "learner/1") and several.meeting(found) == "learner"
    given = [node_arguments(program, found, i, {}) for i in range(2)]
    assert {(each["seed"], each["folder"]) for each in given} == {(7, str(tmp_path / "checkpoints"))}
    assert seeds_of(program)["learner/0"] == seeds_of(program)["learner/1"] == 7


def test_a_program_that_names_its_learners_decides_itself_and_one_learner_meets_nobody(tmp_path):
    program = program_of(tmp_path, group(Learner, 4), group(Actor), number=1)
    check_nodes(program)
    assert program.of_role("learner").number == 4
    (single, actors) = program_of(tmp_path, group(Learner), group(Actor, 2), number=1).groups
    assert single.names == ("learner",) and not several.meeting(single) and not several.meeting(actors)


@pytest.mark.parametrize(
    ("groups", "settings", "message"),
    [
        (
            [group(Learner), group(Actor)],
            {"number": 3},
            "table 'transitions': batch_size is 64; it must divide over 3 learners",
        ),
        (
            [group(Learner), group(Actor), group(Reanalyzer)],
            {"number": 32, "make": muzero.make, "config": REANALYZE},
            "each of 32 learners draws a part of every batch, and its batch_size is 1; it must be at least 1 for each",
        ),
        ([group(Learner, 2), group(Actor)], {"number": 4}, "learners is 4, and the program itself names 2: leave it"),
        ([group(Actor)], {}, "learners is 2, and the program itself has none: leave it out"),
        ([group(Learner, 2), group(Actor)], {"number": 1, "launch": "serial"}, "with --launch serial it can have one"),
        ([group(Learner, 2), group(Actor)], {"number": 1, "launch": "local_mt"}, "--launch local_mt it can have one"),
        ([group(Lone), group(Actor)], {}, "Lone takes no `agreement`, and so can't be one of 2 learners"),
        (
            [group(Learner), group(Learner, label="second"), group(Actor)],
            {},
            r"groups \['learner', 'second'\] are learners; only a program with one such group can have 2 of them",
        ),
        (
            [group(Learner), group(Learner, label="second"), group(Actor)],
            {"number": 1},
            r"groups \['learner', 'second'\] .* can have 2 of them, group\(Learner, 2\)$",
        ),
    ],
)
def test_learners_that_can_not_learn_together_are_refused(tmp_path, groups, settings, message):
    with pytest.raises(ValueError, match=message):
        check_nodes(program_of(tmp_path, *groups, **settings))


@pytest.mark.parametrize(
    ("launch", "instead"), [("serial", ""), ("local_mt", ""), ("sebulba", ", or give"), ("anakin", ", or give")]
)
def test_ways_to_run_with_one_learner_refuse_more(launch, instead):
    message = f"learners is 2; with --launch {launch} it must be 1: leave it out{instead}"
    with pytest.raises(ValueError, match=message):
        Run(launch=launch, learners=2)
    with pytest.raises(ValueError, match="learners is 0; it must be at least 1"):
        Run(learners=0)


@pytest.mark.cluster
def test_learners_on_one_machine_do_not_fight_for_its_accelerators(tmp_path, monkeypatch):
    monkeypatch.setattr(accelerators, "gpus", lambda: ["a GPU"])
    groups = group(Learner), group(Actor)
    with pytest.raises(BadInput, match="each would take all of its accelerators: give one, .* --gpus learner=1 "):
        local.prepare(program_of(tmp_path, *groups))
    local.prepare(program_of(tmp_path, *groups, process_env=("learner:JAX_PLATFORMS=cpu",)))
    local.prepare(program_of(tmp_path, *groups, number=1))
    local.prepare(program_of(tmp_path, *groups, gpus=("learner=0",)))
    with pytest.raises(BadInput, match="learner/1 asks for 1 GPU, for which this machine has no room"):
        local.prepare(program_of(tmp_path, *groups, gpus=("learner=1",)))
    monkeypatch.setattr(accelerators, "gpus", lambda: ["a GPU"] * 2)
    local.prepare(program_of(tmp_path, *groups, gpus=("learner=1",)))
