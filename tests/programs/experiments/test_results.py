"""What there is to read in a run's folder."""

from __future__ import annotations

import json

import pytest

from boonta.programs.experiments import folders
from boonta.programs.experiments.folders import all_recorded, folders_of
from boonta.programs.experiments.results import metrics_of, recorded, results_of, results_of_all
from boonta.programs.experiments.scores import Score
from boonta.programs.tools.compare import compare
from boonta.programs.tools.plot import plot
from boonta.programs.wiring.run import BadInput
from boonta.tests.helpers import run_folders
from boonta.tests.helpers.run_folders import EVALUATED, read_results, rows, write_lines, write_run

pytestmark = pytest.mark.once


def test_a_run_has_one_result(tmp_path):
    (result,), warnings = read_results(write_run(tmp_path / "run", [0.0, 0.5, 1.0], seed=4))
    assert not warnings and result.name == "run" and (result.environment, result.seed) == ("catch", 4)
    assert result.settings == {"config.rate": 0.1, "evaluation.episodes": 20, "launch": "anakin"}
    assert result.curve.values.tolist() == [0.0, 0.5, 1.0] and result.curve.env_steps.tolist() == [100, 200, 300]
    assert result.score == Score(1.0, "last evaluation of the run", 20)
    assert result.starts[0].boonta.commit == "a" * 40 and result.starts[0].machine.devices == ()


def test_a_line_that_a_kill_has_cut_costs_itself_alone(tmp_path):
    folder = write_run(tmp_path)
    rows = run_folders.rows([0.0, 0.5])
    write_lines(
        folder / "metrics.jsonl", rows, cut='{"env_steps": 250, "ev\n' + json.dumps(run_folders.rows([7.0] * 3)[2])
    )
    (result,), (warning,) = read_results(folder)
    assert result.curve.values.tolist() == [0.0, 0.5, 7.0]
    assert warning.endswith("line 3 of metrics.jsonl is cut or malformed, and left out")


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (["INFO ended by SIGINT", "DEBUG ended with code 130"], "it was ended by SIGINT"),
        (["ERROR learner failed", "DEBUG ended with code 1"], "it has ended: learner failed"),
        (["WARNING actor/0 died"], "it was cut off"),
    ],
)
@pytest.mark.parametrize(
    ("stop", "what"),
    [
        (None, "has not reached its stop rule"),  # It isn't recorded.
        ({"updates": None, "eval_return": 0.0, "on_collapse": False}, "has not reached its stop rule"),
        ({"updates": None, "eval_return": None, "on_collapse": False}, "has no stop rule"),
    ],
)
def test_a_run_that_its_stop_rule_has_not_ended_is_reported(tmp_path, end, state, stop, what):
    folder = write_run(tmp_path / "run", end=end)
    config = json.loads((folder / "config.json").read_text())
    config["run"] |= {} if stop is None else {"stop": stop}
    (folder / "config.json").write_text(json.dumps(config))
    (warning,) = read_results(folder)[1]
    assert warning.startswith(f"run {what}: {state}")


def test_members_of_a_population_are_results_of_their_own(tmp_path):
    settings = {"config": {"rate": 0.1, "size": 8}, "vary": ["rate=0.1,0.2"], "seeds": 1}
    folder = write_run(tmp_path / "run", settings=settings, program="population")
    rows = [
        {"member": i, "seed": 7 + i, "rate": rate, "updates": updates, "return": 9.0, "eval_return": rate * updates}
        for updates in (1, 3)
        for i, rate in enumerate((0.1, 0.2))
    ]
    rows[-1]["loss"] = None
    write_lines(folder / "members.jsonl", rows)
    write_lines(folder / "evaluations.jsonl", [{**EVALUATED, "member": 1}])
    (one, other), (warning,) = read_results(folder)
    assert (one.name, one.seed, one.settings["config.rate"]) == ("run, member 0", 7, 0.1)
    assert (other.name, other.seed, other.settings["config.rate"]) == ("run, member 1", 8, 0.2)
    assert "vary" not in one.settings and "seeds" not in one.settings and one.settings["config.size"] == 8
    assert one.curve.env_steps.tolist() == [50, 150] and one.score.value == pytest.approx(0.3)
    assert other.score.value == 1.5 and warning.startswith("run: members 1 diverged")


def test_what_all_members_share_is_the_runs(tmp_path):
    lines = [{**row, "share/learner/updating": 0.5, "eval_return": 7.0} for row in run_folders.rows((0.0, 1.0))]
    folder = write_run(tmp_path / "run", metrics=lines, program="population")
    write_lines(folder / "members.jsonl", [{"member": i, "seed": i, "updates": 1, "eval_return": i} for i in (0, 1)])
    (result,), _ = results_of(recorded(folder), "share/learner/updating", "newest")
    assert result.member is None and result.curve.values.tolist() == [0.5, 0.5]
    assert [each.curve.values.tolist() for each in read_results(folder)[0]] == [[0.0], [1.0]]
    assert {"eval_return", "share/learner/updating"} <= set(metrics_of(recorded(folder)))


def test_a_population_without_an_evaluation_is_named(tmp_path):
    folder = write_run(tmp_path / "run")
    write_lines(folder / "members.jsonl", [], cut='{"member": 0, "upd')
    with pytest.raises(BadInput, match="run has no evaluation in members.jsonl yet"):
        read_results(folder)


def test_starts_before_a_resumption_count(tmp_path):
    folder = write_run(tmp_path, origin=run_folders.provenance(boonta__commit="b" * 40))
    (folder / "config.json").rename(folder / "config-until-20260102-030405.json")
    (result,), _ = read_results(write_run(folder))
    assert [start.boonta.commit for start in result.starts] == ["b" * 40, "a" * 40]


def test_an_earlier_start_with_other_settings_is_named_and_a_damaged_one_left_out(tmp_path):
    folder = write_run(tmp_path, settings={"config": {"discount": 0.5, "gone": 1}, "actors": 2})
    (folder / "config.json").rename(folder / "config-until-20260102-030405.json")
    (folder / "config-until-20260102-030406.json").write_text('{"program": "imp')
    _, warnings = read_results(write_run(folder, settings={"config": {"discount": 0.9, "new": 1}, "actors": 3}))
    assert f"{folder.name} went on with other settings: config.discount was 0.5, is 0.9" in warnings
    assert any("030406.json is damaged" in warning for warning in warnings)


def test_starts_are_in_the_order_in_which_they_began_whatever_their_files_are_called(tmp_path):
    """Older versions named the files by the local time; here the second start ends in a zone in the far west."""
    for day, name in ((1, "20260102-083000"), (2, "20260101-223000"), (3, None)):
        begun = run_folders.provenance(started=f"2026-01-0{day}T03:04:05+00:00")
        folder = write_run(tmp_path / "run", settings={"config": {"rate": day}}, origin=begun)
        if name is not None:
            (folder / "config.json").rename(folder / f"config-until-{name}.json")
    (result,), warnings = read_results(folder)
    assert [start.started[9:10] for start in result.starts] == ["1", "2", "3"]
    changes = [f"run went on with other settings: config.rate was {was}, is {now}" for was, now in ((1, 2), (2, 3))]
    assert [warning for warning in warnings if "other settings" in warning] == changes


def test_a_run_whose_returns_were_measured_in_another_way_before_is_named(tmp_path):
    """A resumed run may be evaluated in another way; how often says nothing of its returns."""
    settings = {"evaluation": {"deterministic": None, "max_steps": None, "every_s": 30.0}}
    folder = write_run(tmp_path, settings=settings)
    (folder / "config.json").rename(folder / "config-until-20260102-030405.json")
    later = {"evaluation": {"deterministic": True, "max_steps": 7, "every_s": 60.0}}
    _, warnings = read_results(write_run(folder, settings=later))
    changes = "evaluation.deterministic was None, is True, evaluation.max_steps was None, is 7"
    assert f"{folder.name} went on with other settings: {changes}" in warnings


@pytest.mark.parametrize(
    ("arguments", "settings", "environment"),
    [
        (["minatar/breakout", "--seed", "1"], {}, "minatar-breakout"),
        (["--game", "Pong"], {"game": "Pong"}, "Pong"),
        (["--seed", "1"], {}, "impala"),
        ([], {}, "impala"),
    ],
)
def test_runs_of_an_older_version_are_read(tmp_path, arguments, settings, environment):
    (result,), _ = read_results(write_run(tmp_path, origin=None, arguments=arguments, settings=settings))
    assert result.environment == environment and result.starts == ()
    assert result.settings == {"launch": "anakin"}


def test_the_game_is_no_setting(tmp_path):
    origin = run_folders.provenance(environment="minatar-breakout")
    settings = {
        "env": {"game": "breakout", "sticky": 0.1},
        "config": {"torso": {"kind": "breakout"}},
        "a": "",
        "b": "out",
    }
    (result,), _ = read_results(write_run(tmp_path, origin=origin, settings=settings))
    assert result.settings.keys() == {"env.sticky", "config.torso.kind", "a", "b", "launch"}


def test_a_sweep_names_its_runs(tmp_path):
    (tmp_path / "sweep.json").write_text("{}")
    with pytest.raises(BadInput, match="is a sweep of which no run has been started yet"):
        folders_of([tmp_path])
    one, other = (write_run(tmp_path / name) for name in "ab")
    for name in ("not started", "comparison"):
        (tmp_path / name).mkdir()
    assert list(folders_of([tmp_path, other]).items()) == [(one, False), (other, True)]
    assert list(folders_of([tmp_path, other, tmp_path / "a"]).items()) == [(one, True), (other, True)]
    assert folders_of([tmp_path / "comparison", other]) == {other: True}
    write_run(tmp_path)  # An earlier version has let a sweep take the folder of a run.
    assert list(folders_of([tmp_path])) == [tmp_path, one, other]


def test_a_run_of_a_sweep_without_metrics_is_left_out_by_name_unless_it_is_given_itself(tmp_path):
    (tmp_path / "sweep.json").write_text("{}")
    one, other = (write_run(tmp_path / name) for name in "ab")
    (other / "metrics.jsonl").unlink()
    runs, warnings = all_recorded(folders_of([tmp_path]))
    assert [run.folder for run in runs] == [one] and warnings == ["b has no metrics.jsonl yet, and is left out"]
    with pytest.raises(BadInput, match="b has no metrics.jsonl: No such file"):
        all_recorded(folders_of([tmp_path, other]))
    (one / "metrics.jsonl").unlink()
    with pytest.raises(BadInput, match="nothing to show: a has no metrics.jsonl yet, .*; b has"):
        all_recorded(folders_of([tmp_path]))


def test_a_run_that_goes_on_without_an_evaluation_does_not_hold_up_the_others(tmp_path):
    done = recorded(write_run(tmp_path / "done"))
    folder = write_run(tmp_path / "late", end=())
    write_lines(folder / "members.jsonl", [])
    late = recorded(folder, asked=False)
    results, metric, warnings = results_of_all([late, done], None, "newest")
    assert [result.folder.name for result in results] == ["done"] and metric == "eval_return"
    reason = "it was cut off: its launcher was killed, or the machine went down"
    assert f"late has no evaluation in members.jsonl yet ({reason}), and is left out" in warnings
    with pytest.raises(BadInput, match="late has no evaluation"):
        results_of_all([recorded(folder), done], None, "newest")
    with pytest.raises(BadInput, match="late has no evaluation"):
        results_of_all([late], None, "newest")


def test_a_run_that_has_ended_without_an_evaluation_makes_all_count_by_training(tmp_path):
    blind = write_run(tmp_path / "blind", metrics=[{"env_steps": 1.0, "updates": 1.0, "return": 2.0}])
    runs = [recorded(write_run(tmp_path / "done")), recorded(blind, asked=False)]
    runs[0].past[-1].row["return"] = 3.0
    results, metric, warnings = results_of_all(runs, None, "newest")
    assert metric == "return" and sorted(result.score.value for result in results) == [2.0, 3.0]
    assert any("those of training" in warning for warning in warnings)


def test_a_folder_that_holds_no_run_is_named(tmp_path):
    with pytest.raises(BadInput, match=f"{tmp_path} is no run's folder, with a config.json, nor a sweep's"):
        folders_of([tmp_path])


def test_a_run_without_metrics_or_evaluations_is_named(tmp_path):
    folder = write_run(tmp_path / "run", metrics=[{"env_steps": 1.0}])
    with pytest.raises(BadInput, match="run has no eval_return yet"):
        read_results(folder)
    (folder / "metrics.jsonl").unlink()
    with pytest.raises(BadInput, match="run has no metrics.jsonl: No such file"):
        read_results(folder)


def test_of_long_runs_only_what_curves_need_is_kept(tmp_path):
    lines = [{**row, "loss": 1.0, "share/learner/updating": 0.5, "rss_mb/actor": 90.0} for row in rows((0.0, 1.0))]
    folder = write_run(tmp_path / "run", metrics=lines)
    (some,), _ = all_recorded({folder: True}, ("loss", "share/*"))
    counted = {"env_steps", "updates", "seconds", "eval_version"}
    assert [set(moment.row) for moment in some.past] == [{*counted, "loss", "share/learner/updating"}] * 2
    assert metrics_of(some) == metrics_of(recorded(folder)) == list(lines[0])


@pytest.mark.parametrize("tool", [compare, plot])
def test_pictures_of_returns_keep_no_other_metrics(tmp_path, monkeypatch, tool):
    kept = []
    monkeypatch.setattr(folders, "recorded", lambda *args: kept.append(recorded(*args)) or kept[-1])
    lines = [{**row, "loss": 1.0} for row in rows((0.0, 1.0))]
    tool((write_run(tmp_path / "run", metrics=lines),))
    assert [set(moment.row) for moment in kept[0].past] == [set(lines[0]) - {"loss"}] * 2


def test_runs_without_env_steps_are_compared_over_updates(tmp_path):
    counted = [{name: value for name, value in row.items() if name != "env_steps"} for row in rows((0.0, 0.5, 1.0))]
    compare((write_run(tmp_path / "unplugged", metrics=counted),))
    content = (tmp_path / "unplugged" / "comparison" / "page.md").read_text()
    assert "## Curves over updates" in content and "curve ends at updates" in content
    points = (tmp_path / "unplugged" / "comparison" / "curves.csv").read_text().splitlines()
    assert points[0].split(",")[5] == "updates" and points[-1].split(",")[5] == "3.0"


def test_what_only_rows_have_that_a_resumed_run_has_made_again_is_none_of_its_metrics(tmp_path):
    folder = write_run(tmp_path / "run", [0.0, 0.5])
    first, second = rows([0.0, 0.5])
    write_lines(folder / "metrics.jsonl", [first, {**second, "lost": 1.0}, {**second, "env_steps": 150.0}])
    assert "lost" not in metrics_of(recorded(folder))
