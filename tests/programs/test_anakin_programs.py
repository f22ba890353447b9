"""Populations and meta-gradients as whole programs, from the command line to the table and the picture."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Sequence

import imageio.v3 as imageio
import pytest

from boonta.nodes import metrics
from boonta.programs.experiments import evaluations
from boonta.programs.population import population
from boonta.programs.tools import compare, evaluate, play
from boonta.programs.wiring import launch
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.runs import undeclared

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]
ROOT = pathlib.Path(__file__).parents[2]
TINY = ["--config.batch-size=4", "--config.unroll-length=4", "--config.torso.widths", "8"]
REPLAY = {"batch-size": "4", "min-size": "20", "updates-per-env-step": "0.5", "bootstrap-length": "2"}
BRIEF = [
    "--seeds=2",
    "--placement.learning=1",
    "--evaluation.every-updates=20",
    "--stop.updates=40",
]


def run(program: list[str], folder: pathlib.Path, *flags: str, brief: Sequence[str] = (*BRIEF, *TINY)) -> None:
    command = [sys.executable, str(ROOT / "programs" / program[0]), *program[1:], "--workdir", str(folder)]
    done = subprocess.run([*command, *brief, *flags], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stderr
    assert "done: updates reached 40 (limit 40)" in done.stdout


def compared(folder: pathlib.Path) -> dict[str, list[dict[str, float]]]:
    """A population's members by group, from its comparison."""
    compare.compare((folder,))
    out = folder / "comparison"
    assert imageio.imread(out / "curves_env_steps.png").shape[2] == 4 and (out / "index.html").exists()
    ((_, groups),) = json.loads((out / "results.json").read_text())["environments"].items()
    return {name: group["runs"] for name, group in groups.items()}


def test_a_population_is_trained_tabled_drawn_played_and_evaluated(tmp_path, capsys):
    folder = tmp_path / "run"
    run(["population.py", "catch"], folder, "--vary", "optimiser.learning_rate=1e-3,1e-2", "optimiser.epsilon=1e-6")
    rows = metrics.read(folder, metrics.MEMBERS)
    who = [(rate, seed) for rate in (1e-3, 1e-2) for seed in (0, 1)]
    assert [(row["updates"], row["member"], row["optimiser.learning_rate"], row["seed"]) for row in rows[-8:]] == [
        (updates, i, *who[i]) for updates in (20, 40) for i in range(4)
    ]
    assert all(row["optimiser.epsilon"] == 1e-6 and -1 <= row["eval_return"] <= 1 and row["loss"] for row in rows)
    assert not undeclared(folder)
    last = metrics.read(folder)[-1]
    assert last["updates"] == last["eval_version"] == 40 and last["diverged"] == 0
    assert last["env_steps"] == 4 * 4 * (1 + 40 * 4)
    returns = [row["eval_return"] for row in rows[-4:]]
    assert last["eval_return"] == pytest.approx(sum(returns) / 4)
    groups = compared(folder)
    assert list(groups) == [f"population, optimiser.learning_rate {rate}" for rate in ("0.001", "0.01")]
    runs = [run for group in groups.values() for run in group]
    assert [(run["member"], run["seed"], run["value"]) for run in runs] == [
        (i, i % 2, value) for i, value in enumerate(returns)
    ]
    assert all(run["env_steps"] == pytest.approx(last["env_steps"] / 4) for run in runs)
    play.play(folder)
    assert f"{folder}/play.gif" in capsys.readouterr().out
    require_members_are_evaluated_as_they_would_be_alone(folder, capsys)


def require_members_are_evaluated_as_they_would_be_alone(folder: pathlib.Path, capsys) -> None:
    def lines() -> list[dict]:
        return [json.loads(line) for line in (folder / evaluations.FILE).read_text().splitlines()]

    evaluate.evaluate((folder,), episodes=5)
    found = lines()
    assert [line["member"] for line in found] == [0, 1, 2, 3] and all(len(line["returns"]) == 5 for line in found)
    evaluate.evaluate((folder,), episodes=5, which="best")
    best = lines()[4]
    assert best["which"] == "best" and best["member"] in range(4) and best["updates"] in (2, 5, 10, 20, 40)
    if best["updates"] == 40:
        assert best["returns"] == found[best["member"]]["returns"]
    capsys.readouterr()
    evaluate.evaluate((folder,), episodes=5)
    assert capsys.readouterr().out.count("from before") == 4
    evaluate.evaluate((folder,), episodes=5, which=40)
    by_number = lines()[5:]
    assert [line["returns"] for line in by_number] == [line["returns"] for line in found]
    assert {line["which"] for line in by_number} == {40}
    with pytest.raises(SystemExit):
        evaluate.evaluate((folder,), episodes=5, which=39)
    assert capsys.readouterr().err.endswith("/members has no checkpoint 39: there are 40\n")


def test_learners_move_their_discount(tmp_path):
    rates = ["--config.optimiser.learning-rate", "2e-3", "--meta-learning-rate", "0.05"]
    run(["meta_gradient.py"], tmp_path, "--learn", "discount=0.5", *rates)
    assert not undeclared(tmp_path)
    learned = [row["meta/discount"] for row in metrics.read(tmp_path) if "meta/discount" in row]
    assert abs(learned[-1] - 0.5) > 0.01 and 0 < learned[-1] < 1
    rows = metrics.read(tmp_path, metrics.MEMBERS)
    assert [(row["updates"], row["seed"]) for row in rows[-4:]] == [(20, 0), (20, 1), (40, 0), (40, 1)]
    ((name, runs),) = compared(tmp_path).items()
    assert name == "meta_gradient" and [run["value"] for run in runs] == [row["eval_return"] for row in rows[-2:]]


def test_real_valued_actions_are_learned_at_the_ratio_that_is_asked_for(tmp_path):
    replay = [word for name, value in REPLAY.items() for word in (f"--config.replay.{name}", value)]
    flags = ["--config.layers.widths", "8", "--evaluation.episodes", "2", *replay, *BRIEF[1:]]
    run(["td3.py", "gymnax/Pendulum-v1", "--launch", "anakin"], tmp_path, brief=flags)
    assert not undeclared(tmp_path)
    last = metrics.read(tmp_path)[-1]
    # A slot's first sequence takes three rows, so five take seven; then there are two updates for four env steps.
    assert (last["updates"], last["env_steps"]) == (40, 4 * 7 + 40 / 0.5)
    assert -3_000 < last["eval_return"] < 0 and last["episodes"] == 0


def test_what_cannot_vary_is_told_and_leaves_no_folder(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        flags = ["catch", "--vary", "optimiser.decay=0.9,0.99", "--workdir", str(tmp_path / "run"), *TINY]
        launch.main(population, flags)
    assert ended.value.code == 2 and not (tmp_path / "run").exists()
    assert "error: anakin: optimiser.decay has no effect with these settings" in capsys.readouterr().err
