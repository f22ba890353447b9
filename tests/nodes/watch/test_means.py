"""Means of metrics are numbers wherever there is one."""

from __future__ import annotations

import math
import sys

import pytest

from boonta.nodes.watch.means import means, standard_error


def test_a_mean_that_is_none_is_no_error():
    """An environment's numbers may be infinite, or too large to be added up."""
    found = means({"episode/x": [math.inf, -math.inf], "episode/y": [1e308, 1e308], "return": [1.0, 2.0]})
    assert math.isnan(found["episode/x"]) and math.isnan(found["episode/y"]) and found["return"] == 1.5


def test_an_evaluator_whose_episodes_were_all_cut_has_no_part_in_their_numbers():
    found = means({"eval_episode/x": [math.nan, 0.5], "eval_episode/y": [math.nan], "loss": [math.nan, 0.5]})
    assert found["eval_episode/x"] == 0.5 and math.isnan(found["eval_episode/y"]) and math.isnan(found["loss"])


@pytest.mark.parametrize("values", [[1.0, math.inf], [-math.inf, math.inf], [math.nan, 1.0]])
def test_a_standard_error_that_is_none_is_no_error(values):
    """A policy or an environment that has diverged must not end the node that measures it."""
    error = standard_error(values)
    assert error is not None and math.isnan(error)


def test_a_standard_error_whose_squares_have_no_room_in_a_float_is_no_error():
    """Python 3.13 computes it all the same."""
    assert standard_error([1e300, -1e300]) == pytest.approx(
        1e300 if sys.version_info >= (3, 11) else math.nan, nan_ok=True
    )


def test_standard_errors_whose_squares_have_no_room_in_a_float_are_combined():
    assert means({"eval_return_se": [3e200, 4e200]})["eval_return_se"] == pytest.approx(2.5e200)
