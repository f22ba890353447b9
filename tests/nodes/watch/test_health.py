"""Rules of health: each fires on what it is about, and none on healthy rows."""

from __future__ import annotations

import numpy as np
import pytest

from boonta.nodes.watch.health import Health
from boonta.nodes.watch.rules import RULES

LEARNED = {
    "entropy": 0.5,
    "entropy_uniform": 1.1,
    "grad_norm": 0.3,
    "update_norm": 0.01,
    "learning_rate": 1e-3,
    "return": 90.0,
    "return_se": 1.0,
    "return_start": 10.0,
    "priority_max": 0.2,
    "hidden_deviation": 0.05,
    "policy_lag": 5.0,
    "policy_lag_allowed": 100.0,
    "largest_target_share": 0.5,
    "outside_support": 0.0,
}


def rows(number: int, first: int = 1, **changed) -> list[dict[str, float]]:
    """Rows of 100 updates each, numbered from `first`, with an evaluation in each."""
    return [
        {**LEARNED, "updates": 100.0 * i, "eval_version": 100.0 * i, **changed} for i in range(first, first + number)
    ]


def judged(*parts: list[dict[str, float]]) -> tuple[Health, list[str]]:
    """The health after these rows, and the names of the rules that have warned, in their order."""
    health = Health()
    warnings = [warning for part in parts for row in part for warning in health.feed(row)]
    return health, [warning.partition(":")[0] for warning in warnings]


HEALTHY = rows(20)


def test_a_healthy_run_hears_nothing():
    health, names = judged(HEALTHY)
    assert not names and not health.collapsed and not health.holding
    assert set(health.metrics) == {f"health/{rule.name.replace(' ', '_')}" for rule in RULES}
    assert not any(health.metrics.values())


@pytest.mark.parametrize(
    ("name", "changed", "collapse"),
    [
        ("entropy collapse", {"entropy": 0.001, "return": 20.0}, True),
        ("entropy collapse", {"entropy": 0.001, "return": 60.0}, True),
        ("gradient vanished", {"grad_norm": 0.0}, True),
        ("gradient vanished", {"grad_norm": 1e-9}, True),
        ("gradient exploded", {"grad_norm": 1e5}, False),
        ("update vanished", {"update_norm": 0.0}, False),
        ("update exploded", {"update_norm": 100.0}, False),
        ("values past the support", {"outside_support": 0.2}, False),
        ("values past the support", {"largest_target_share": 2.0}, False),
        ("priorities are zero", {"priority_max": 0.0}, False),
        ("states are alike", {"hidden_deviation": 1e-4}, True),
        ("policy lag", {"policy_lag": 150.0}, False),
        ("data is left out", {"sequences": 1000.0, "stale_sequences": 300.0}, False),
        ("evaluation is old", {"eval_version": 900.0, "eval_age_allowed": 500.0}, False),
        ("evaluation is old", {"eval_version": 900.0}, False),  # They came every 100 updates.
    ],
)
def test_each_rule_warns_with_advice_and_lets_go(name, changed, collapse):
    health, names = judged(HEALTHY, rows(3, 21, **changed))
    assert names == [name] and health.collapsed == collapse
    (rule,) = [rule for rule in RULES if rule.name == name]
    read = {*rule.reads, "updates"}
    parts = [[{key: row[key] for key in read & set(row)} for row in part] for part in (HEALTHY, rows(3, 21, **changed))]
    assert judged(*parts)[1] == [name]  # It reads nothing else.
    ((held, text),) = health.holding.items()
    assert held == name and text.startswith(f"{name}: ") and "; " in text
    assert [metric for metric, value in health.metrics.items() if value] == [f"health/{name.replace(' ', '_')}"]
    for row in rows(3, 24):
        assert not health.feed(row)
    assert not health.holding and not health.collapsed


def test_states_that_a_new_model_does_not_tell_apart_yet_are_no_fault():
    new, later = (rows(3, first, hidden_deviation=1e-4) for first in (0, 3))
    health, names = judged(new)
    assert not names and not health.collapsed
    assert judged(new, later)[1] == ["states are alike"]


def test_data_left_out_while_a_learner_starts_is_no_fault():
    left_out = {"sequences": 100.0, "stale_sequences": 75.0}
    assert judged([{"updates": i + 1.0, **left_out} for i in range(9)])[1] == []
    assert judged([{"updates": i + 1.0, **left_out} for i in range(12)])[1] == ["data is left out"]


def test_returns_that_fall_far_and_stay_are_a_collapse():
    health, names = judged(HEALTHY, rows(8, 21, **{"return": 30.0}))
    assert names == ["returns fell"] and health.collapsed
    assert health.holding["returns fell"].startswith("returns fell: the mean return is 30, and was 90; ")
    assert judged(HEALTHY, rows(4, 21, **{"return": 30.0}))[1] == []  # They may come back.
    assert judged(rows(200), rows(10, 201, **{"return": 30.0}))[1] == []  # That is half a percent of the run.
    assert judged(HEALTHY, rows(20, 21, **{"return": 75.0}))[1] == []


def test_chance_is_no_fall():
    """A run that learns nothing has means of a hundred episodes that overlap, with errors of 1."""
    rng = np.random.default_rng(0)
    returns = np.convolve(rng.normal(10.0, 2.0, 3_000), np.full(4, 0.25), mode="valid")
    parts = [rows(1, i + 1, **{"return": float(value)}) for i, value in enumerate(returns)]
    assert judged(*parts)[1] == []


# Evaluations of IMPALA on Catch, each of 50 returns of 1 or -1, at 250, 500, … updates: `programs/population.py catch
# --seeds 2`. The learning rates are 1e-4, 3e-3, 1e-2, 3e-2 twice, and 1e-1. The fifth loses a quarter of
# what it had gained.
RECORDED = [
    (False, [-0.56, -0.72, -0.44, -0.32, -0.32, -0.48, -0.2, 0.2, 0.44, 0.36, 0.56, 0.72, 0.8, 0.84, 0.96, 1.0]),
    (False, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.92]),
    (False, [1.0, 1.0, 0.96, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.96, 1.0, 1.0, 1.0, 1.0]),
    (True, [1.0, 1.0, 1.0, 1.0, 0.96, 1.0, 1.0, 1.0, -0.24, -0.32, -0.24, -0.28, -0.08, -0.12, -0.12, 0.12]),
    (False, [1.0, 1.0, 1.0, 1.0, 0.36, 0.52, 0.6, 0.48, 0.44, 0.6, 0.64, 0.56, 0.6, 0.52, 0.6, 0.28]),
    (True, [0.68, 0.52, 0.88, 0.64, 0.72, 0.76, 0.84, 1.0, 0.24, -0.08, -0.04, 0.04, -0.2, -0.48, -0.32, -0.6]),
]


@pytest.mark.parametrize(("falls", "returns"), RECORDED)
def test_recorded_runs_that_fell_and_that_did_not(falls, returns):
    health = Health()
    rows = [
        {"updates": 250.0 * (i + 1), "return": mean, "return_se": ((1 - mean**2) / 49) ** 0.5, "return_start": -0.6}
        for i, mean in enumerate(returns)
    ]
    assert [text.partition(":")[0] for row in rows for text in health.feed(row)] == falls * ["returns fell"]


OFFLINE = [{k: v for k, v in row.items() if not k.startswith("return")} for row in HEALTHY]


def evaluated(number: int, first: int, value: float, rows_each: int = 1) -> list[dict[str, float]]:
    """Rows of a run without actors: so many evaluations of a value, each of which is in several rows."""
    found = {"eval_return": value, "eval_return_se": 1.0}
    return [
        {**OFFLINE[0], **found, "updates": 100.0 * i, "eval_version": 100.0 * (i - i % rows_each)}
        for i in range(first * rows_each, (first + number) * rows_each)
    ]


def test_evaluations_are_judged_where_a_run_has_no_returns_of_its_own():
    health, names = judged(evaluated(1, 0, 10.0), evaluated(20, 1, 90.0), evaluated(5, 21, 30.0))
    assert names == ["returns fell"] and health.collapsed
    assert health.holding["returns fell"].startswith("returns fell: the mean return is 30, and was 90; ")
    assert not [warning for row in evaluated(5, 26, 90.0) for warning in health.feed(row)] and not health.collapsed


def test_an_evaluation_counts_once_however_many_rows_have_it():
    before = evaluated(1, 0, 10.0, 10), evaluated(20, 1, 90.0, 10)
    assert judged(*before, evaluated(4, 21, 30.0, 10))[1] == []
    assert judged(*before, evaluated(5, 21, 30.0, 10))[1] == ["returns fell"]
    certain = [[row | {"entropy": 0.0, "entropy_uniform": 1.0} for row in evaluated(n, 21, 30.0, 10)] for n in (2, 3)]
    assert [judged(*before, rows)[1] for rows in certain] == [[], ["entropy collapse"]]


def test_evaluations_before_the_first_return_are_no_best():
    early, own = evaluated(20, 1, 90.0), {"return": 30.0, "eval_return": 90.0, "eval_return_se": 1.0}
    assert judged(evaluated(1, 0, 10.0), early, rows(20, 21, **own))[1] == []
    few = {"return": 30.0, "return_episodes": 3.0, "eval_return": 10.0, "eval_return_se": 1.0}
    assert judged(early, rows(20, 21, **few))[1] == []  # Returns of its own come, but not from enough episodes yet.


def test_a_mean_over_few_episodes_is_no_best():
    few = rows(1, **{"return": 500.0, "return_episodes": 3.0})
    assert judged(few, rows(20, 2))[1] == []


def test_first_episodes_that_were_short_and_so_reached_the_goal_are_no_best():
    searching = {"return": 0.25, "return_se": 0.02, "return_start": 1.0}
    assert judged(rows(20, **searching))[1] == []
    assert judged(rows(20, **searching), rows(20, first=21, **{**searching, "return": 0.0}))[1] == ["returns fell"]


def test_a_solved_task_may_be_certain():
    solved = {"entropy": 0.0, "return": 1.0, "return_se": 0.0, "return_start": -0.6}
    assert judged(rows(20, **solved))[1] == []


def test_a_policy_that_is_certain_from_the_start_and_has_learned_nothing_has_collapsed():
    dead = {"entropy": 0.0, "return": -0.62, "return_se": 0.08, "return_start": -0.6}
    assert judged(rows(3, **dead))[1] == ["entropy collapse"]
    unknown = [{name: value for name, value in row.items() if name != "return_start"} for row in rows(20, **dead)]
    assert judged(unknown)[1] == []  # It may have started from params that were trained before.


def test_what_is_not_measured_is_not_judged():
    assert judged([{"updates": float(i)} for i in range(20)])[1] == []
    for metric in LEARNED:
        health, names = judged([{k: v for k, v in row.items() if k != metric} for row in HEALTHY])
        assert not names, metric
    assert judged([{"return": 1.0}])[1] == []


def test_an_annealed_learning_rate_is_no_fault():
    assert judged(HEALTHY, rows(5, 21, update_norm=0.0, learning_rate=0.0))[1] == []
    several = rows(20, **{"update_norm/policy": 0.1, "update_norm/critic": 0.1})
    at_rest = {"update_norm/policy": 0.0, "learning_rate/policy": 0.0, "update_norm/critic": 0.1}
    assert judged(several, rows(5, 21, **at_rest))[1] == []
    assert judged(several, rows(5, 21, **{"update_norm/policy": 0.0, "learning_rate": 0.0}))[1] == []
    assert judged(several, rows(5, 21, **{**at_rest, "update_norm/critic": 0.0}))[1] == ["update vanished"]


def test_an_optimiser_that_rests_in_the_updates_that_rows_show_is_not_judged_by_them():
    """As TD3's policy does in every second update, which may be the one that each row shows."""
    norms = {"grad_norm/policy": 0.0, "update_norm/policy": 0.0, "grad_norm/critic": 0.1, "update_norm/critic": 0.1}
    assert judged(rows(40, **norms, **{"rests/policy": 1.0}))[1] == []
    both = ["gradient vanished", "update vanished"]
    assert judged(rows(40, **norms, **{"rests/policy": 0.0}))[1] == both
    # What holds is neither found nor refuted by rows that can't tell.
    in_turns = [row for i in range(20) for row in rows(1, i, **norms, **{"rests/policy": float(i % 2)})]
    health, names = judged(in_turns)
    assert names == both and health.collapsed
    assert judged(in_turns, rows(5, 20, **norms, **{"rests/policy": 1.0}))[0].collapsed


def test_each_of_several_optimisers_is_judged():
    both = [{**row, "grad_norm/actor": 0.1, "grad_norm/critic": 0.1} for row in rows(20)]
    health, names = judged(both, [{**row, "grad_norm/critic": 0.0} for row in rows(3, 21)])
    assert names == ["gradient vanished"] and "grad_norm/critic is 0" in health.holding["gradient vanished"]


def test_rows_without_a_new_update_count_once():
    still = rows(1, 21, grad_norm=0.0) * 10
    assert judged(HEALTHY, still)[1] == []


def test_a_resumed_run_knows_what_was_before():
    health = Health()
    health.remember(HEALTHY + rows(2, 21, entropy=0.0, **{"return": 0.0}))
    again = rows(1, 22, entropy=0.0, **{"return": 0.0})  # It goes on from a snapshot of before.
    assert [text.partition(":")[0] for text in health.feed(again[0])] == ["entropy collapse"]


def test_a_population_has_collapsed_if_all_of_its_members_have():
    means = {"members": 4.0, "entropy": 0.0, "return": 0.0, "grad_norm": 0.0}
    health, names = judged(HEALTHY, rows(5, 21, **means, members_collapsed=3.0))
    assert not names and not health.collapsed
    assert health.holding == {"members": "3 of 4 members have collapsed"}
    health.feed(rows(1, 26, **means, members_collapsed=4.0)[0])
    assert health.collapsed
