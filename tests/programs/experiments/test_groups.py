"""Groups of runs, suites of environments, and what runs should not differ in."""

from __future__ import annotations

import pytest

from boonta.programs.experiments.groups import shortened, suite_of, warnings_of
from boonta.programs.experiments.origins import footer
from boonta.programs.experiments.results import recorded, results_of
from boonta.programs.wiring.run import BadInput
from boonta.tests.helpers.run_folders import provenance, write_run

pytestmark = pytest.mark.once
FEW = "intervals and probabilities of fewer than 5 runs are not to be relied on, and mostly too narrow: "


def result(folder, environment="catch", origin=None, **changes):
    origin = provenance(environment=environment, **(origin or {}))
    (one,), _ = results_of(recorded(write_run(folder, origin=origin, **changes)), "eval_return", "newest")
    return one


def settings(rate=0.1, **env):
    return {"config": {"rate": rate, "size": 8}, "env": env, "evaluation": {"episodes": 20}}


def test_runs_that_differ_in_the_seed_alone_are_a_group(tmp_path):
    results = [
        result(tmp_path / f"{rate}-{seed}", seed=seed, settings=settings(rate))
        for rate in (0.1, 0.5)
        for seed in (1, 0)
    ]
    suite = suite_of(results)
    (groups,) = suite.values()
    assert [group.name for group in groups] == ["impala, rate 0.1", "impala, rate 0.5"]
    assert [[one.seed for one in group.results] for group in groups] == [[0, 1], [0, 1]]
    (warning,) = warnings_of(suite)
    assert warning == f"{FEW}2 of impala, rate 0.1 in catch, 2 of impala, rate 0.5 in catch"


def test_settings_that_agree_in_six_digits_are_of_two_groups(tmp_path):
    values = {"a": 0.9999996, "b": 0.9999999, "c": 0.25}
    results = [result(tmp_path / name, settings={"config": {"discount": value}}) for name, value in values.items()]
    names = [group.name for group in suite_of(results)["catch"]]
    assert names == ["impala, discount 0.9999996", "impala, discount 0.9999999", "impala, discount 0.25"]


def test_rules_and_suites_that_agree_in_six_digits_are_reported(tmp_path):
    def both(name, environment, **more):
        return result(tmp_path / name, environment, settings={"config": more, "env": {"wind": 1.0 + len(name) * 1e-8}})

    (rules,) = [text for text in warnings_of(suite_of([both("a", "catch"), both("aa", "catch")])) if "rules" in text]
    assert rules == "catch has other rules in some runs: env.wind is 1.00000001 and 1.00000002"
    suite = suite_of([both("b", "catch", rate=0.1), both("c", "grid_world", rate=0.10000001)])
    wanted = "impala has other settings in some environments: rate is 0.1 in catch, 0.10000001 in grid_world"
    assert wanted in warnings_of(suite)


def test_a_whole_number_is_the_same_with_a_point(tmp_path):
    """Members of a population have all their numbers with one."""
    results = [result(tmp_path / str(value), settings={"config": {"period": value}}) for value in (4, 4.0, 5)]
    groups = suite_of(results)["catch"]
    assert {group.name: len(group.results) for group in groups} == {"impala, period 4": 2, "impala, period 5": 1}
    assert [group.name for group in suite_of(results[:2])["catch"]] == ["impala"]


def test_five_runs_are_enough(tmp_path):
    results = [result(tmp_path / str(seed), seed=seed) for seed in range(5)]
    assert warnings_of(suite_of(results)) == []
    assert warnings_of(suite_of(results[:4])) == [f"{FEW}4 of impala in catch"]


def test_groups_of_another_program_are_named_by_it_alone(tmp_path):
    results = [result(tmp_path / "a"), result(tmp_path / "b", program="muzero", settings={"config": {"depth": 5}})]
    assert [group.name for group in suite_of(results)["catch"]] == ["impala", "muzero"]


def test_environments_with_the_same_groups_are_a_suite(tmp_path):
    names = ["minatar-breakout", "minatar-freeway"]
    results = [
        result(tmp_path / f"{env}-{rate}", env, settings=settings(rate, game=env.partition("-")[2]))
        for env, rates in zip(names, ((0.1, 0.5), (0.5, 0.1)))
        for rate in rates
    ]
    suite = suite_of(results)
    assert list(suite) == names
    for groups in suite.values():
        assert [group.name for group in groups] == ["impala, rate 0.1", "impala, rate 0.5"]


def test_a_group_with_other_settings_in_each_environment_is_reported(tmp_path):
    rates = {"catch": 0.1, "grid_world": 0.5}
    results = [result(tmp_path / env, env, settings={"config": {"rate": rate}}) for env, rate in rates.items()]
    wanted = "impala has other settings in some environments: rate is 0.1 in catch, 0.5 in grid_world"
    assert wanted in warnings_of(suite_of(results))


def test_a_setting_that_is_none_is_that_of_a_program_which_lacks_it(tmp_path):
    """So that runs from before there was the setting are still of their group."""
    given = {"before": {}, "none": {"cut": None}, "cut": {"cut": 9}}
    results = [result(tmp_path / name, settings={"config": fields}) for name, fields in given.items()]
    assert [group.name for group in suite_of(results[:2])["catch"]] == ["impala"]
    assert [group.name for group in suite_of(results)["catch"]] == ["impala, cut unset", "impala, cut 9"]


def test_environments_with_other_groups_are_refused(tmp_path):
    results = [result(tmp_path / "a"), result(tmp_path / "b", "grid_world"), result(tmp_path / "c", program="muzero")]
    with pytest.raises(BadInput, match="no suite.*: catch has impala, muzero; grid_world has impala"):
        suite_of(results)


@pytest.mark.parametrize(
    ("origin", "warning_text"),
    [
        (
            {"boonta__commit": "b" * 40, "program__commit": "b" * 40},
            "commit differs: aaaaaaaaaaaa in a; bbbbbbbbbbbb in b",
        ),
        (
            {"program__commit": "b" * 40},
            "commit differs: aaaaaaaaaaaa in a; Boonta aaaaaaaaaaaa, program bbbbbbbbbbbb in b",
        ),
        ({"program__commit": None}, "commit differs: aaaaaaaaaaaa in a; Boonta aaaaaaaaaaaa, program none in b"),
        ({"program__dirty": True}, "files differed from the commit (the tree was dirty) in b"),
        ({"boonta__digest": "ff"}, "source of Boonta (digest) differs: 01234567 in a; ff in b"),
        ({"program__digest": "ff"}, "the file of impala (digest) differs: 89abcdef in a; ff in b"),
        ({"versions__jax": "0.7.0"}, "version of jax differs: 0.6.2 in a; 0.7.0 in b"),
        ({"versions__pgx": "2.6"}, "version of pgx differs: none in a; 2.6 in b"),
        ({"machine__processor": "Loom"}, "processor differs: Abacus in a; Loom in b"),
        ({"machine__cores": 4}, "number of cores differs: 2 in a; 4 in b"),
        ({"machine__memory_bytes": 16_000_000_000}, "memory in GB differs: 8 in a; 16 in b"),
        ({"machine__devices": ["H200"]}, "devices differs: none in a; H200 in b"),
        ({"machine__variables": {"XLA_FLAGS": "-x"}}, "environment variables differs: none in a; XLA_FLAGS=-x in b"),
    ],
)
def test_what_runs_should_not_differ_in_is_reported(tmp_path, origin, warning_text):
    results = [result(tmp_path / "a"), result(tmp_path / "b", origin=origin, seed=1)]
    assert warnings_of(suite_of(results)) == [f"{FEW}2 of impala in catch", warning_text]


def test_runs_whose_origin_is_not_recorded_are_reported(tmp_path):
    folders = [write_run(tmp_path / str(seed), origin=None, seed=seed) for seed in range(5)]
    results = [one for folder in folders for one in results_of(recorded(folder), "eval_return", "newest")[0]]
    assert warnings_of(suite_of(results)) == ["nothing is recorded of source, versions and machine of 0 and 4 others"]


def test_other_numbers_of_runs_steps_and_episodes_are_reported(tmp_path):
    episodes = {"config": {"rate": 0.1}, "evaluation": {"episodes": 50}}
    results = [
        result(tmp_path / "a", seed=0),
        result(tmp_path / "b", seed=0),
        result(tmp_path / "c", returns=[0.0] * 9, program="muzero", settings=episodes),
    ]
    assert warnings_of(suite_of(results)) == [
        "number of runs differs: 2 of impala in catch, 1 of muzero in catch",
        "a single run has no interval, and shows little: muzero in catch",
        f"{FEW}2 of impala in catch",
        "impala in catch has several runs with seed 0: they may be equal",
        "final scores in catch are not at equal env steps: the curve of a ends at 300, that of c at 900",
        "number of episodes differs: 20 in a, b; 50 in c",
    ]


def test_a_curve_that_ends_before_its_longest_run_is_reported(tmp_path):
    results = [
        result(tmp_path / "a", seed=0, returns=[0.0] * 9),
        result(tmp_path / "b", seed=1, returns=[0.0] * 4),
        result(tmp_path / "c", seed=2, returns=[0.0] * 9),
        result(tmp_path / "d", seed=0, returns=[0.0] * 4, program="muzero"),
        result(tmp_path / "e", seed=1, returns=[0.0] * 4, program="muzero"),
    ]
    suite = suite_of(results)
    text = "the curve of impala in catch ends after 400 env steps, as b does; c goes on to 900"
    assert shortened(suite, "env_steps") == [text]
    assert shortened(suite, "seconds") == [text.replace("400 env steps", "40 s").replace("900", "90")]
    assert text in warnings_of(suite)


def test_other_rules_of_an_environment_are_reported(tmp_path):
    results = [
        result(tmp_path / f"{columns}-{seed}", seed=seed, settings=settings(columns=columns))
        for columns in (5, 7)
        for seed in (0, 1)
    ]
    assert warnings_of(suite_of(results))[1:] == ["catch has other rules in some runs: env.columns is 5 and 7"]


def test_a_picture_has_a_line_for_each_origin_of_its_runs(tmp_path):
    """In one line, what goes beyond the picture's edges can't be read."""
    runs = [result(tmp_path / str(i), origin={"boonta__commit": commit * 40}) for i, commit in enumerate("aabc")]
    assert footer(runs[:1]).startswith("1 run · commit ") and "\n" not in footer(runs[:2])
    first, second = footer(runs).split("\n")
    assert first.startswith("4 runs · commit aaa") and second.startswith("commit Boonta bbb")
    assert second.endswith(" · and 1 more")
