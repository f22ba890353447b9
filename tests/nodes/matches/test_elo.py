"""Ratings, against numbers made by hand."""

from __future__ import annotations

import math

import pytest

from boonta.nodes.matches import elo
from boonta.nodes.matches.elo import Result


@pytest.mark.parametrize("share, points", [(0.5, 0.0), (0.75, 190.85), (0.25, -190.85), (10 / 11, 400.0)])
def test_a_share_of_the_points_is_a_rating_difference(share, points):
    assert elo.difference(share) == pytest.approx(points, abs=0.01)


def test_a_clean_sweep_is_an_infinite_difference():
    assert elo.difference(1.0) == math.inf and elo.difference(0.0) == -math.inf


def test_ratings_of_one_pair_are_the_formula():
    assert elo.ratings({("a", "b"): Result(300, 400)}, "b", prior_draws=0) == pytest.approx(
        {"b": 0, "a": 190.85}, abs=0.01
    )
    assert elo.ratings({("a", "b"): Result(300, 400)}, "a", prior_draws=0) == pytest.approx(
        {"a": 0, "b": -190.85}, abs=0.01
    )


def test_the_prior_is_a_draw_and_keeps_a_clean_sweep_finite():
    rated = elo.ratings({("a", "b"): Result(3, 3)}, "b")  # 3.5 of 4
    assert rated["a"] == pytest.approx(400 * math.log10(7), abs=0.01)


def test_ratings_add_up_along_a_chain():
    rated = elo.ratings({(2, 1): Result(75, 100), (1, "b"): Result(75, 100)}, "b", prior_draws=0)
    assert rated == pytest.approx({"b": 0, 1: 190.85, 2: 381.70}, abs=0.01)


def test_ratings_that_contradict_each_other_meet_in_the_middle():
    """a and b are level, yet a makes 3/4 against c and b 1/4: all three fit best at 0 for c, and ±x for a and b."""
    rated = elo.ratings({("a", "b"): Result(50, 100), ("a", "c"): Result(75, 100), ("b", "c"): Result(25, 100)}, "c", 0)
    assert rated["a"] == pytest.approx(-rated["b"], abs=0.01)
    x = rated["a"]

    def expected(d):
        return 1 / (1 + 10 ** (-d / 400))

    assert 0 < x < 190.85 and expected(x) + expected(2 * x) == pytest.approx(0.75 + 0.5, abs=1e-4)  # Points a made.


def test_hundreds_of_versions_are_rated():
    results = {(version, "b"): Result(0.75 * 20, 20) for version in range(500)}
    results |= {(version, version - 1): Result(10, 20) for version in range(1, 500)}
    rated = elo.ratings(results, "b", prior_draws=0)
    assert [rated[0], rated[250], rated[499]] == pytest.approx([190.85] * 3, abs=0.1)


def test_the_interval_is_wilsons():
    assert elo.interval(Result(50, 100)) == pytest.approx((-67.67, 67.67), abs=0.01)  # Shares 0.40383 and 0.59617.
    low, high = elo.interval(Result(50, 50))
    assert low == pytest.approx(elo.difference(50 / (50 + 1.96**2)), abs=0.01) and high == math.inf
    low, high = elo.interval(Result(0, 50))
    assert low == -math.inf and high == pytest.approx(-elo.difference(50 / (50 + 1.96**2)), abs=0.01)
