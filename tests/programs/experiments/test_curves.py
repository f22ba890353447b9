"""Learning curves from rows of metrics."""

from __future__ import annotations

import numpy as np
import pytest

from boonta.programs.experiments import curves
from boonta.programs.experiments.curves import Curve

pytestmark = pytest.mark.once


def row(env_steps: float, updates: float, **others: float | None) -> dict[str, float | None]:
    return {"env_steps": env_steps, "seconds": env_steps / 10, "updates": updates, **others}


def points(rows, metric="eval_return") -> list[tuple[float, float, float]]:
    return [tuple(map(float, point)) for point in zip(*curves.curve_of(curves.moments(rows), metric))]


def test_an_evaluation_belongs_to_the_moment_at_which_its_params_were_made():
    rows = [
        {"seconds": 0.0},
        row(100, 10, eval_return=0.0, eval_version=0.0),
        row(200, 20, eval_return=0.0, eval_version=0.0),  # The same one.
        row(300, 30, eval_return=0.5, eval_version=15.0),
        row(400, 40, eval_return=None, eval_version=35.0),
        row(500, 50, eval_return=1.0, eval_version=50.0),
    ]
    assert points(rows) == [(0.0, 0.0, 0.0), (150.0, 15.0, 0.5), (500.0, 50.0, 1.0)]


def test_an_evaluation_may_be_newer_than_the_counters_of_its_row():
    rows = [row(100, 10), row(200, 20, eval_return=1.0, eval_version=35.0)]
    rows += [row(n, n / 10, eval_return=1.0, eval_version=35.0) for n in (300, 400, 500)]
    assert points(rows) == [(350.0, 20.0, 1.0)]  # It was there after 20 s.
    assert points(rows[:3]) == [(300.0, 20.0, 1.0)]  # The run's end.
    back = row(350, 15, eval_return=1.0, eval_version=35.0)
    assert points([*rows[:3], back, *rows[3:]]) == [(300.0, 20.0, 1.0)]  # A learner that went back makes another 35.


def test_training_returns_have_a_point_in_each_row():
    assert points([row(1, 0, **{"return": 2.0}), row(2, 1), row(3, 2, **{"return": 4.0})], "return") == [
        (1.0, 0.1, 2.0),
        (3.0, 0.3, 4.0),
    ]


def test_a_run_that_went_back_to_a_checkpoint_repeats_what_came_after_it():
    rows = [row(n, n, eval_return=n, eval_version=n) for n in (10, 20, 30)]
    assert points([*rows, row(21, 21, eval_return=0.0, eval_version=21.0)]) == [
        (10.0, 1.0, 10.0),
        (20.0, 2.0, 20.0),
        (21.0, 2.1, 0.0),
    ]


def test_a_time_that_has_gone_back_is_repeated_whatever_the_actors_have_counted_since():
    rows = [row(n, n, eval_return=n, eval_version=n) for n in (10, 20)]
    assert points([*rows, row(25, 25, eval_return=0.0, eval_version=25.0) | {"seconds": 1.5}]) == [
        (10.0, 1.0, 10.0),
        (25.0, 1.5, 0.0),
    ]


def test_a_row_of_before_a_run_had_its_counters_back_hides_no_others():
    rows = [row(n, n, eval_return=n, eval_version=n) for n in (10, 20)]
    early = [{"seconds": 0.5, "eval_return": None}, {"seconds": 1.5, "env_steps": 0.0, "updates": 0.0}]
    assert points([*rows, *early, row(30, 30, eval_return=30, eval_version=30)]) == [
        (10.0, 1.0, 10.0),
        (20.0, 2.0, 20.0),
        (30.0, 3.0, 30.0),
    ]


def test_a_learner_that_went_back_alone_leaves_no_gap():
    """Under `local_mp` a learner starts again from its checkpoint, while the actors go on."""
    rows = [row(n, n, eval_return=n, eval_version=n) for n in (10, 20, 30)]
    rows += [row(40, 15, eval_return=15, eval_version=15), row(50, 30, eval_return=7, eval_version=30)]
    found = points(rows)
    assert [value for _, _, value in found] == [10, 20, 30, 15, 7]
    assert [steps for steps, _, _ in found] == [10, 20, 30, 40, 50]


def test_members_share_the_env_steps_of_their_population():
    past = curves.moments([row(100, 10), row(200, 20), row(300, 30)])
    rows = [
        {"member": float(i), "seed": 7.0 + i, "rate": 0.5, "updates": updates, "eval_return": value + i, "loss": 1.0}
        for updates, value in ((10, 0), (25, 3), (15, 1), (30, 2))  # It went back from 25 updates to 10.
        for i in (0, 1)
    ]
    found = curves.member_curves([*rows, {"member": None, "updates": 1.0}], past, "eval_return")
    assert list(found) == [0, 1] and found[1][0]["seed"] == 8.0
    np.testing.assert_allclose(found[1][1], [[50, 75, 150], [10, 15, 30], [1, 2, 3]])


def curve(env_steps, values) -> Curve:
    return Curve(np.array(env_steps, float), np.array(env_steps, float), np.array(values, float))


def test_values_hold_until_the_next_one_and_never_beyond_the_end():
    one, other = curve([0, 10, 20], [1, 2, 3]), curve([5, 15], [7, 8])
    grid = curves.grid([one, other], "env_steps")
    np.testing.assert_array_equal(grid, [5, 10, 15])
    np.testing.assert_array_equal(curves.grid([one, other], "env_steps", most=2), [5, 15])
    np.testing.assert_array_equal(curves.at(one, "env_steps", grid), [1, 2, 2])
    np.testing.assert_array_equal(curves.at(other, "env_steps", grid), [7, 7, 8])


def test_curves_that_do_not_overlap_have_no_grid():
    assert not len(curves.grid([curve([0, 1], [0, 0]), curve([2, 3], [0, 0])], "env_steps"))


def test_a_run_that_counts_no_env_steps_has_its_updates_instead():
    rows = [
        {"seconds": n / 10, "updates": float(n), "eval_return": float(n), "eval_version": float(n)} for n in (10, 20)
    ]
    assert points([{"seconds": 0.0}, *rows]) == [(10.0, 1.0, 10.0), (20.0, 2.0, 20.0)]
    assert curves.counter_of([*rows, {"seconds": 0.0}]) == "updates"
    assert curves.counter_of([*rows, row(100, 30)]) == "env_steps"


def test_the_first_time_at_a_bar_counts():
    for bar in (4.5, 5):
        assert curves.reaches(curve([1, 2, 3], [0, 5, 4]), bar) == (2, 2)
    assert curves.reaches(curve([1, 2, 3], [0, 5, 4]), 6) is None
