"""Groups of nodes: their labels and numbers."""

from __future__ import annotations

import re

import pytest

from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.learner import Learner
from boonta.programs.wiring.launch import Program, Run, group
from boonta.tests.helpers import tiny


def program_of(tmp_path, *groups) -> Program:
    env = Catch()
    return Program("c", Run(workdir=str(tmp_path)), tiny.make(env.spec), env, groups)


def test_two_groups_of_one_label_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"groups are \['learner', 'actor', 'actor'\]; each needs a label of its own"):
        program_of(tmp_path, group(Learner), group(Actor), group(Actor))


@pytest.mark.parametrize("label", ["monitor", "variables", "replay"])
def test_a_label_of_a_group_that_the_program_adds_is_refused(tmp_path, label):
    with pytest.raises(ValueError, match=r"needs a label of its own, .* adds \['monitor', 'variables', 'replay'\]"):
        program_of(tmp_path, group(Learner), group(Actor, label=label))


@pytest.mark.parametrize("label", ["easy/one", "../x", "..", ".x", "two words", "a=b", "a\n"])
def test_a_label_that_is_no_name_of_a_file_is_refused(label):
    with pytest.raises(ValueError, match=re.escape(f"a group's label is {label!r}; it must be of letters, digits, ")):
        group(Actor, label=label)
    assert group(Actor, label="easy_1.a-b").names == ("easy_1.a-b/0",)


def test_a_number_of_nodes_that_is_no_int_is_refused():
    for number in ("2", 2.0):
        with pytest.raises(ValueError, match=f"the number of actor nodes is {number!r}; it must be an int"):
            group(Actor, number)
