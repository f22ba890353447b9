"""A program whose updates are traced: which node gets what, and what is refused."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.base import Node
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.learner import Learner
from boonta.nodes.learning.profiling import Profile
from boonta.programs.wiring.construction import construct, node_arguments
from boonta.programs.wiring.program import Group, Program, group
from boonta.programs.wiring.run import Run
from boonta.tests.helpers import tiny

HANDLES = dict.fromkeys(["monitor", "variables", "replay"])


class OwnLearner(Node):
    role = "learner"

    def step(self) -> None:
        """Learns nothing."""


def program_of(run: Run, learners: Group) -> Program:
    return Program("program", run, tiny.make(Catch().spec), Catch(), [learners, group(Actor)])


def test_each_learner_and_each_host_has_a_folder_of_its_own(tmp_path: pathlib.Path):
    run = Run(workdir=str(tmp_path), profile=7)
    second = dataclasses.replace(run, launch="sebulba", hosts=Hosts("first:1", 2, 1))
    profiles = [
        node_arguments(program_of(run, learners), learners, i, {})["profile"]
        for run, learners, i in (
            (run, group(Learner), 0),
            (run, group(Learner, 2), 1),
            (second, group(Learner), 0),
        )
    ]
    folders = ["profile/learner", "profile/learner/1", "hosts/1/profile/learner"]
    assert profiles == [Profile(7, str(tmp_path / folder)) for folder in folders]


def test_none_is_made_unless_it_is_asked_for(tmp_path: pathlib.Path):
    learners = group(Learner)
    assert node_arguments(program_of(Run(workdir=str(tmp_path)), learners), learners, 0, {})["profile"] is None


def test_a_learner_of_ones_own_that_makes_none_is_refused_where_one_is_asked_for(tmp_path: pathlib.Path):
    program = program_of(Run(workdir=str(tmp_path), profile=7), group(OwnLearner))
    unasked = dataclasses.replace(program, run=Run(workdir=str(tmp_path)))
    construct(unasked, unasked.groups[0], 0, HANDLES)
    construct(program, program.groups[1], 0, HANDLES)
    with pytest.raises(ValueError, match="learner: OwnLearner takes no profile; leave --profile out"):
        construct(program, program.groups[0], 0, HANDLES)


@pytest.mark.parametrize("number", [0, -1])
def test_a_trace_of_no_updates_is_refused(number: int):
    with pytest.raises(ValueError, match=f"profile is {number}; it must be at least 1"):
        Run(profile=number)
