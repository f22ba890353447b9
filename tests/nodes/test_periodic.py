"""Nodes that work in rounds: what intervals they can have, and how they share the time."""

from __future__ import annotations

import math
import time

import pytest

from boonta.agents import dqn
from boonta.envs.catch import Catch
from boonta.nodes.actor import Actor
from boonta.nodes.learner import Learner
from boonta.nodes.periodic import Periodic
from boonta.programs.wiring.checks import check_nodes
from boonta.programs.wiring.launch import Program, Run, group


class Logger(Periodic):
    """A user's own."""

    role = "logger"


@pytest.mark.parametrize("every_s", [-1.0, 0, math.nan, math.inf])
def test_an_interval_in_which_a_node_never_rests_or_never_works_is_refused_by_its_name(every_s):
    with pytest.raises(ValueError, match=rf"logger: every_s is {every_s}; it must be above 0, and finite"):
        Logger("logger", every_s=every_s)


def test_rounds_that_wait_themselves_may_follow_each_other_at_once():
    assert Logger("logger", every_s=None).ready()


def test_a_program_with_such_a_node_is_refused_before_anything_starts():
    groups = [group(Learner), group(Actor), group(Logger, every_s=-1)]
    program = Program("p", Run(), dqn.make(dqn.CATCH, Catch().spec), Catch(), groups)
    with pytest.raises(ValueError, match="logger: every_s is -1; it must be above 0"):
        check_nodes(program)


def test_a_periodic_node_that_was_busy_rests_for_its_share_of_the_time():
    node = Logger("evaluator", every_s=None)
    node.rest_after(500.0, max_share=1.0)
    assert node.ready()
    node.rest_after(500.0, max_share=0.25)
    assert 1_400 < node._due - time.monotonic() <= 1_500
