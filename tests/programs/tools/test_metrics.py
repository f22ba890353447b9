"""What metrics mean: the page, the command, and that declarations are true to rows and to rules of health."""

from __future__ import annotations

import pathlib

import pytest

from boonta.nodes.watch.rules import RULES
from boonta.programs.reports.meanings import GROUPS, declared, found, healthy
from boonta.programs.tools import metrics
from boonta.programs.wiring.run import BadInput
from boonta.tests.helpers.run_folders import write_run

ROOT = pathlib.Path(__file__).parents[3]


def test_the_page_is_made_from_the_declarations():
    assert (ROOT / "nodes" / "METRICS.md").read_text() == metrics.page()


def test_every_declaration_is_found_by_its_name_and_once_in_its_group():
    for group in GROUPS.values():
        names = [metric.name for metric in group]
        assert len(set(names)) == len(names)
    assert all(metric in found(metric.name) for metric in declared())


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        ("policy_lag", ["policy_lag"]),
        ("rss_mb/actor/0", ["rss_mb/<node>"]),
        ("share/learner/waiting_for_trajectories", ["share/<group>/<activity>"]),
        ("trajectories/samples_per_insert", ["<table>/samples_per_insert"]),
        ("eval_return/evaluator/1", ["eval_return"]),
        ("policy_loss", ["policy_loss"] * 5),  # IMPALA's, MuZero's, PPO's, SAC's and TD3's.
        ("policy_loss/learner", []),
        ("nothing", []),
    ],
)
def test_a_name_in_a_row_has_its_declarations(name, declared):
    assert [metric.name for metric in found(name)] == declared


@pytest.mark.parametrize(
    ("agent", "meanings"),
    [
        ("boonta.agents.impala", ["The policy gradient's surrogate, weighted by V-trace's advantages."]),
        ("boonta.agents.td3", ["The first critic's value of the policy's actions, negated."]),
        ("boonta.agents.dqn", []),
    ],
)
def test_a_runs_metric_is_its_own_agents(agent, meanings):
    assert [metric.meaning for metric in found("policy_loss", agent)] == meanings
    assert found("loss", agent) == found("loss")  # It is all agents'.
    assert len(found("policy_loss", "my_agent")) == len(found("policy_loss")) > 1


def test_rules_of_health_read_declared_metrics():
    assert all(found(name) for rule in RULES for name in rule.reads)
    (lag,) = found("policy_lag")
    assert healthy(lag).endswith("Watched: policy lag")


def test_a_runs_newest_row_is_explained(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    rows = [{"policy_lag": 1.0}, {"policy_lag": 2.5, "mine": None, "rss_mb/actor/0": 12345.0}]
    write_run(tmp_path, metrics=rows)
    metrics.metrics((str(tmp_path),))
    _, lag, mine, memory = capsys.readouterr().out.splitlines()
    assert lag.split()[:3] == ["policy_lag", "2.5", "updates"] and mine.split() == ["mine"]
    assert memory.split()[:3] == ["rss_mb/actor/0", "12,345", "MB"]
    metrics.metrics((str(tmp_path), "lag"))
    assert len(capsys.readouterr().out.splitlines()) == 2
    monkeypatch.setenv("COLUMNS", "80")
    metrics.metrics(("share",))
    assert any(line.startswith("share/<group>/<activity> ") for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("share/learner", {"share/<group>/<activity>"}),
        ("share/learner/acting", {"share/<group>/<activity>"}),
        ("rss_mb/actor/0", {"rss_mb/<node>"}),
        ("waits", {"share/<group>/<activity>"}),  # No metric has this name, but a meaning has the word.
    ],
)
def test_metrics_are_found_by_what_a_user_saw(asked, names, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    metrics.metrics((asked,))
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]} == names


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no metric is called 'polcy_lag'; did you mean policy_lag"):
        metrics.metrics(("polcy_lag",))
    with pytest.raises(BadInput, match="no metric is called 'zzz'; one of your own has no entry, and only you know it"):
        metrics.metrics(("zzz",))
    with pytest.raises(BadInput, match=f"no metric is called '{tmp_path}'"):
        metrics.metrics((str(tmp_path),))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(BadInput, match=f"{tmp_path} has no metrics"):
        metrics.metrics((str(tmp_path),))
