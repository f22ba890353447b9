"""Errors to priorities, against ranks counted by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from boonta.agents.base import Steps, Table
from boonta.nodes.tables.contract import PRIORITY_FLOOR as FLOOR
from boonta.nodes.tables.priorities import Ranks, fresh_priorities, make_priorities


def table(sampler: str) -> Table:
    return Table("t", "replay", 6, 5, batch_size=4, size=100, sampler=sampler)


def test_each_sampler_makes_its_own_of_the_errors():
    keys, errors = np.arange(3, dtype=np.uint64), np.array([0.5, 0.0, 2.0], np.float32)
    assert make_priorities(table("uniform")) is None
    np.testing.assert_allclose(make_priorities(table("proportional"))(keys, errors), [0.5 + FLOOR, FLOOR, 2 + FLOOR])
    np.testing.assert_allclose(make_priorities(table("rank"))(keys, errors), [1 / 2, 1 / 3, 1])


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        (lambda steps: steps.reward, r"have the shape \[6, 2\]; it must be \[2\], one for each"),
        (lambda steps: steps.reward[0, :1], r"have the shape \[1\]; it must be \[2\]"),
        (lambda steps: np.float32(1.0), r"have the shape \[\]; it must be \[2\]"),
        (lambda steps: steps.reward[9], "no errors can be made of its sequences of 6 steps: index 9 is out of bounds"),
    ],
)
def test_errors_that_are_not_one_for_each_fresh_sequence_are_refused(errors, message):
    """Of fewer, some sequences would be lost; of one, all would have the same."""
    numbers = np.ones((6, 2), np.float32)
    steps = Steps(*[numbers] * 5, (), numbers)
    with pytest.raises(ValueError, match=f"table 't': .*{message}"):
        fresh_priorities(dataclasses.replace(table("proportional"), errors=errors), steps, 2)


def test_a_fresh_sequence_without_an_error_can_be_drawn():
    reward = np.array([[0.0, 2.0]] * 6, np.float32)
    steps = Steps(*[reward] * 5, (), reward)
    of_reward = dataclasses.replace(table("proportional"), errors=lambda steps: steps.reward[-1])
    np.testing.assert_allclose(fresh_priorities(of_reward, steps, 2), [FLOOR, 2 + FLOOR])


def test_ranks_are_among_all_known_and_follow_what_changes():
    ranks = Ranks(100)
    ranks(np.array([10, 11, 12, 13]), np.array([4.0, 3.0, 2.0, 1.0]))
    np.testing.assert_allclose(ranks(np.array([14]), np.array([2.5])), [1 / 3])
    np.testing.assert_allclose(ranks(np.array([10]), np.array([0.1])), [1 / 5])  # the largest has become the smallest
    np.testing.assert_allclose(ranks(np.array([11, 12]), np.array([3.0, 2.0])), [1 / 1, 1 / 3])


def test_equal_errors_share_the_middle_of_their_ranks():
    ranks = Ranks(100)
    np.testing.assert_allclose(ranks(np.arange(4), np.array([1.0, 9.0, 1.0, 1.0])), [1 / 3, 1, 1 / 3, 1 / 3])


def test_a_sequence_drawn_twice_counts_once():
    ranks = Ranks(100)
    np.testing.assert_allclose(ranks(np.array([7, 7, 8]), np.array([5.0, 5.0, 1.0])), [1, 1, 1 / 2])


def test_the_first_known_are_forgotten_beyond_the_tables_size():
    ranks = Ranks(2)
    ranks(np.array([1, 2]), np.array([9.0, 8.0]))
    np.testing.assert_allclose(ranks(np.array([3]), np.array([1.0])), [1 / 2])  # only 8.0 is above
    np.testing.assert_allclose(ranks(np.array([4]), np.array([0.5])), [1 / 2])  # only 1.0 is above


def test_one_that_is_drawn_again_is_not_known_for_longer():
    """It lies in the table since before the others, and so is dropped before them."""
    ranks = Ranks(2)
    ranks(np.array([1, 2]), np.array([9.0, 8.0]))
    ranks(np.array([1]), np.array([9.0]))
    np.testing.assert_allclose(ranks(np.array([3]), np.array([8.5])), [1])  # 9.0 is forgotten, and 8.0 isn't.


def test_ranks_agree_with_sorting_to_a_bins_width():
    rng = np.random.default_rng(0)
    errors = np.exp(rng.normal(-4, 3, 20_000)).astype(np.float32)
    ranks = Ranks(20_000)
    for keys in np.array_split(rng.permutation(20_000), 80):
        ranks(keys, errors[keys])
    asked = rng.choice(20_000, 256, replace=False)
    got = 1 / ranks(asked, errors[asked])
    true = 1 + np.sum(errors > errors[asked, None], axis=1)
    # A bin of 1/128 at the densest part of this distribution holds 20,000 / 128 / (3 sqrt(2 pi)) = 21 of them.
    assert np.max(np.abs(got - true)) <= 21
    assert np.corrcoef(got, true)[0, 1] > 0.9999


def test_all_errors_that_a_float_can_hold_have_a_rank():
    errors = np.array([0.0, -0.0, 1e-45, 1e-30, 3e38], np.float32)
    np.testing.assert_allclose(Ranks(10)(np.arange(5), errors), [1 / 4, 1 / 4, 1 / 4, 1 / 2, 1])


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_the_exponent_is_the_tables_not_the_priorities(alpha):
    prioritised = Table("t", "replay", 6, 5, 4, 100, sampler="proportional", priority_exponent=alpha)
    np.testing.assert_allclose(make_priorities(prioritised)(np.arange(1), np.array([3.0])), [3 + FLOOR])
