"""The rule by which a program has done its work, where no limit is given."""

from __future__ import annotations

import types

import numpy as np
import pytest

from boonta.nodes.fused.dispatch import Lengths
from boonta.nodes.watch.stopping import MOST_UPDATES, StopRule


def test_more_updates_than_a_learner_counts_are_refused():
    assert StopRule(updates=MOST_UPDATES).most_updates == MOST_UPDATES
    with pytest.raises(ValueError, match="stop.updates is 2000000001; it must be at most 2000000000, for an int32"):
        StopRule(updates=MOST_UPDATES + 1)


def test_a_run_ends_by_name_before_its_learner_can_count_no_further():
    rule = StopRule()
    assert not rule.reached({"updates": MOST_UPDATES - 1.0})
    reached = rule.reached({"updates": float(MOST_UPDATES)})
    assert reached == "updates reached 2,000,000,000, the most that a learner counts"


def test_a_fused_program_makes_no_round_beyond_what_it_counts():
    program = types.SimpleNamespace(updates=1_000, env_steps=1)
    lengths, updates = Lengths(program, 0, StopRule()), MOST_UPDATES - 2_500
    while rounds := lengths.rounds(updates, 0, pace=1_000.0):
        updates += rounds * program.updates
    assert MOST_UPDATES <= updates <= np.iinfo(np.int32).max
    assert Lengths(program, 7, StopRule()).evaluates(updates - 1_000, updates, 0)
