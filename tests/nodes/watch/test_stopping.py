"""The rule by which a program has done its work, where no limit is given."""

from __future__ import annotations

import math
import types

import numpy as np
import pytest

from boonta.nodes.fused.dispatch import Lengths
from boonta.nodes.watch.stopping import MOST_UPDATES, Patience, StopRule


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


def first_end(patience: Patience, returns: list[float]) -> int | None:
    """The number of the evaluation with which patience runs out; None if it doesn't."""
    numbers = (i for i, value in enumerate(returns) if patience.ran_out(10.0 * i, value))
    return next(numbers, None)


@pytest.mark.parametrize(
    ("limit", "returns", "end"),
    [
        (1, [0.0, 0.0], 1),  # The first one has none before it, and an equal one is not better.
        (2, [0.0, 1.0, 0.5, 0.5], 3),
        (2, [0.0, 0.0, 1.0, 0.5, 2.0, 1.0], None),
        (3, [3.0, 1.0, 2.0, 2.5], 3),  # Better than the one before, but not than the best.
        (2, [-21.0, -20.0, -19.0, -20.0], None),
        (2, [math.nan, math.nan], 1),
        (2, [1.0, math.nan, math.inf], 2),
        (None, [0.0] * 9, None),
    ],
)
def test_patience_runs_out_with_evaluations_in_a_row_that_are_no_better(limit, returns, end):
    assert first_end(Patience(limit), returns) == end


def test_an_evaluation_that_is_repeated_counts_once():
    patience = Patience(2)
    assert not any(patience.ran_out(version, 12.3) for version in (None, 4_000.0, 4_000.0, 5_000.0, 5_000.0))
    reason = patience.ran_out(6_000.0, 12.3)
    assert reason == "patience: 2 evaluations in a row not above the best, 12.3 at 4,000 updates"
    assert patience.ran_out(6_000.0, 12.3) == reason


def test_patience_without_a_finite_return_says_so():
    reason = Patience(1).ran_out(5.0, math.nan)
    assert reason == "patience: 1 evaluation in a row without a finite return"
