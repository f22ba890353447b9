"""Means of metrics are numbers wherever there is one."""

from __future__ import annotations

import math

from boonta.nodes.watch.means import means


def test_a_mean_that_is_none_is_no_error():
    """An environment's numbers may be infinite, or too large to be added up."""
    found = means({"episode/x": [math.inf, -math.inf], "episode/y": [1e308, 1e308], "return": [1.0, 2.0]})
    assert math.isnan(found["episode/x"]) and math.isnan(found["episode/y"]) and found["return"] == 1.5


def test_an_evaluator_whose_episodes_were_all_cut_has_no_part_in_their_numbers():
    found = means({"eval_episode/x": [math.nan, 0.5], "eval_episode/y": [math.nan], "loss": [math.nan, 0.5]})
    assert found["eval_episode/x"] == 0.5 and math.isnan(found["eval_episode/y"]) and math.isnan(found["loss"])
