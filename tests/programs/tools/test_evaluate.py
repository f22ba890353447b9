"""Final evaluations: of one run, and of a sweep; what is there is not done again."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import shutil
import sys

import numpy as np
import pytest

from boonta.nodes.actor import Actor
from boonta.nodes.anakin import Anakin
from boonta.nodes.evaluating import EvalEpisodes
from boonta.nodes.evaluator import Evaluator
from boonta.nodes.learner import Learner
from boonta.nodes.watch.evaluation import Evaluation
from boonta.programs.experiments import evaluations
from boonta.programs.reports import page
from boonta.programs.tools import evaluate, play
from boonta.programs.wiring import launch
from boonta.programs.wiring.command_line.loading import load
from boonta.programs.wiring.launch import Program, Run, group
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder import journal
from boonta.programs.wiring.run_folder.config_file import read_config
from boonta.tests.helpers import nim_program
from boonta.tests.helpers.examples import python_blocks
from boonta.tests.helpers.fused import ENV, agent
from boonta.tests.helpers.solo_program import solo_program

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]
ROOT = pathlib.Path(__file__).parents[3]


def run(folder: pathlib.Path, *flags: str) -> None:
    with pytest.raises(SystemExit) as ended:
        launch.main(solo_program, [*flags, "--workdir", str(folder)])
    assert ended.value.code == 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that is evaluated every 20 updates."""
    folder = tmp_path_factory.mktemp("sweep") / "run"
    run(folder, "--stop.updates", "60")
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    """A sweep's folder with this run."""
    shutil.copytree(finished, tmp_path / "sweep" / "run")
    (tmp_path / "sweep" / "sweep.json").write_text("{}")
    return tmp_path / "sweep"


def lines(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / evaluations.FILE).read_text().splitlines()]


def test_a_run_is_evaluated_once(folder, capsys):
    evaluate.evaluate((folder / "run",), episodes=7, seed=3)
    (line,) = lines(folder / "run")
    assert {name: value for name, value in line.items() if name != "returns"} == {
        "updates": 60,
        "which": "newest",
        "episodes": 7,
        "deterministic": False,
        "seed": 3,
        "max_steps": 30_000,
        "cut": 0,
    }
    assert len(line["returns"]) == 7 and set(line["returns"]) <= {-1.0, 1.0}
    printed = capsys.readouterr().out
    assert f"{folder}/run: newest checkpoint, 60 updates: {np.mean(line['returns']):.2f} ± " in printed
    assert printed.endswith(" over 7 episodes, sampled\n")
    with open(folder / "run" / evaluations.FILE, "a") as file:
        file.write('{"updates": 60, "which"')  # A kill cut it short.
    evaluate.evaluate((folder / "run",), episodes=7, seed=3)
    assert capsys.readouterr().out == printed.replace("sampled\n", "sampled, from before\n")
    evaluate.evaluate((folder / "run",), episodes=7, seed=3, again=True)
    evaluate.evaluate((folder,), episodes=7, seed=4)  # The sweep's run is this one.
    evaluate.evaluate((folder / "run",), episodes=7, seed=3, max_steps=2)
    assert capsys.readouterr().out.endswith(": 0.00 ± 0.00 over 7 episodes, sampled, 7 cut after 2 steps\n")
    again, other, cut = (found for found in evaluations.read(folder / "run")[0][1:])
    assert list(again.returns) == line["returns"] and other.seed == 4 and cut.returns == (0.0,) * 7


def test_an_evaluation_with_returns_that_are_not_finite_is_kept_as_any_other(folder, capsys, monkeypatch):
    episodes = EvalEpisodes([1.0, math.inf, math.nan], 0, {})
    monkeypatch.setattr(evaluate, "_play", lambda *args: episodes)
    evaluate.evaluate((folder / "run",), episodes=3)
    (line,) = lines(folder / "run")
    assert line["returns"] == [1.0, None, None]
    printed = capsys.readouterr().out
    assert "nan ± nan over 3 episodes, sampled, 2 whose return isn't finite\n" in printed
    evaluate.evaluate((folder / "run",), episodes=3)
    assert capsys.readouterr().out == printed.replace("finite\n", "finite, from before\n")
    assert "<td>–</td>" in page.whole(read_config(folder / "run"), folder / "run")


def test_the_code_of_the_guide_plays_a_runs_params(finished):
    (block,) = python_blocks(ROOT / "docs" / "pages" / "guides" / "runs.md")
    names: dict = {}
    exec(block, names)
    returns = names["returns_of"](finished, 6)
    assert len(returns) >= 6 and set(returns) <= {-1.0, 1.0}


def test_what_was_played_is_told_though_it_cannot_be_kept(folder, capsys):
    (folder / "run" / evaluations.FILE).mkdir()  # As little can be appended to as where a disk is full.
    with pytest.raises(SystemExit):
        evaluate.evaluate((folder / "run",), episodes=2, again=True)
    printed = capsys.readouterr()
    assert " over 2 episodes" in printed.out
    assert f"error: {folder}/run: {evaluations.FILE} can't be written, so the evaluation isn't kept: " in printed.err


def test_the_best_checkpoint_is_evaluated_and_played(folder, capsys):
    (number,) = (int(path.name) for path in (folder / "run" / "checkpoints" / "best").iterdir())
    assert number in (2, 5, 10, 20, 40, 60)
    evaluate.evaluate((folder,), which="best", episodes=2)
    (line,) = lines(folder / "run")
    assert line["which"] == "best" and line["updates"] == number and "member" not in line
    play.play(folder / "run", which="best")
    assert "in 9 env steps" in capsys.readouterr().out


def test_a_checkpoint_is_evaluated_and_played_by_its_number_and_apart_from_the_newest(folder, capsys):
    evaluate.evaluate((folder,), episodes=2)
    for _ in range(2):
        evaluate.evaluate((folder,), which=60, episodes=2)
    newest, by_number = evaluations.read(folder / "run")[0]
    assert (newest.which, by_number.which) == ("newest", 60) and newest.returns == by_number.returns
    assert by_number.source == "evaluation after the run, checkpoint 60, sampled"
    printed = capsys.readouterr().out.splitlines()
    assert ": checkpoint 60, 60 updates: " in printed[1] and printed[2] == f"{printed[1]}, from before"
    (best,) = (int(path.name) for path in (folder / "run" / "checkpoints" / "best").iterdir())
    play.play(folder / "run", which=best)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        evaluate.evaluate((folder,), which=61, episodes=2)
    there = ", ".join(map(str, sorted({best, 60})))
    assert capsys.readouterr().err.endswith(f"/checkpoints has no checkpoint 61: there are {there}\n")


def test_the_checkpoint_that_plays_is_the_recorded_one_though_a_newer_one_comes(folder, monkeypatch):
    checkpoints, read, restored, played = folder / "run" / "checkpoints", evaluations.read, evaluate.restored, []

    def read_later(path):
        if not played:  # The number is found, and nothing has played.
            shutil.copytree(checkpoints / "60", checkpoints / "61")
        return read(path)

    def record(agent, path, which):
        played.append(which)
        return restored(agent, path, which)

    monkeypatch.setattr(evaluations, "read", read_later)
    monkeypatch.setattr(evaluate, "restored", record)
    evaluate.evaluate((folder / "run",), episodes=2)
    assert played == [line["updates"] for line in lines(folder / "run")] == [60]


def test_a_word_that_is_no_checkpoint_is_refused_with_what_is_allowed(folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["play", str(folder / "run"), "--which", "last"])
    with pytest.raises(SystemExit) as ended:
        play.main()
    assert ended.value.code == 2 and "{newest,best}|INT" in capsys.readouterr().err


def test_what_cannot_be_evaluated_is_named_and_the_rest_is_done(folder, capsys):
    (folder / "empty").mkdir()
    shutil.copy(folder / "run" / "config.json", folder / "empty")
    nim_program.make_run(folder / "nim", 1)
    with pytest.raises(SystemExit) as ended:
        evaluate.evaluate((folder,), episodes=2)
    errors = capsys.readouterr().err
    assert ended.value.code == 1
    assert f"error: {folder}/empty: it has no newest checkpoint yet" in errors
    assert f"error: {folder}/nim: it is a game of two players" in errors
    assert len(lines(folder / "run")) == 1
    with pytest.raises(SystemExit):
        evaluate.evaluate((folder / "run",), episodes=2, deterministic=True)
    assert "evaluation.deterministic is True, but neither of the agent's policies is" in capsys.readouterr().err


FAULTS = {
    "timestep._replace(observation=timestep.observation * np.nan)": "the environment's observation[0, 0] is nan",
    "{}['sensor']": "KeyError: 'sensor'",
}
OWN_ENV = """
import dataclasses
import numpy as np
from boonta.envs.catch import Catch

class Own:
    spec = Catch().spec

    def __call__(self, num_envs, seed):
        batch = Catch()(num_envs, seed)
        step = batch.step
        def faulty(action):
            timestep = step(action)
            return """


@pytest.mark.parametrize(("fault", "message"), FAULTS.items())
def test_an_environment_that_fails_is_named_by_its_run_and_the_rest_is_done(
    folder, tmp_path, capsys, monkeypatch, fault, message
):
    shutil.copytree(folder / "run", folder / "a_faulty_run")  # It comes first.
    (tmp_path / "own_env.py").write_text(f"{OWN_ENV}{fault}\n        batch.step = faulty\n        return batch\n")
    own, program_of = load(tmp_path / "own_env.py").Own(), evaluate.program_of
    monkeypatch.setattr(
        evaluate,
        "program_of",
        lambda path: dataclasses.replace(program_of(path), env=own) if "faulty" in path.name else program_of(path),
    )
    with pytest.raises(SystemExit) as ended:
        evaluate.evaluate((folder,), episodes=2)
    told = capsys.readouterr().err
    assert ended.value.code == 1 and f"error: {folder}/a_faulty_run: {message}" in told.splitlines()[-1]
    assert (f'own_env.py", line 14, in faulty\n    return {fault}' in told) == ("KeyError" in message)
    assert len(lines(folder / "run")) == 1 and not (folder / "a_faulty_run" / evaluations.FILE).exists()


@pytest.mark.parametrize("deterministic", [True, False, None])
def test_by_default_the_policy_is_that_of_the_runs_own_evaluations(deterministic):
    """Whether an evaluator makes them, a fused node, or nobody."""
    acting = [group(Learner), group(Actor)]
    fused = group(Anakin, evaluation=Evaluation(deterministic=deterministic))
    for groups in ([*acting, group(Evaluator, deterministic=deterministic)], [fused]):
        assert evaluate._deterministic(Program("own", Run(), agent(), ENV, groups)) is deterministic
    assert evaluate._deterministic(Program("own", Run(), agent(), ENV, acting)) is None


def test_bad_input_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"is no run's folder, with a config\.json, nor a sweep's, with a sweep\.json"):
        evaluate.evaluate((tmp_path,))
    with pytest.raises(BadInput, match="--episodes is 0; it must be at least 1$"):
        evaluate.evaluate((tmp_path,), episodes=0)
    with pytest.raises(BadInput, match="there is no run: give"):
        evaluate.evaluate(())


@pytest.mark.parametrize("by_number", [False, True])
def test_a_run_goes_on_from_the_best_checkpoint_of_another(finished, tmp_path, by_number):
    (number,) = (int(path.name) for path in (finished / "checkpoints" / "best").iterdir())
    which = str(number) if by_number else "best"
    flags = ["--start-from", str(finished), "--start-which", which, "--stop.updates", str(number + 10)]
    run(tmp_path / "other", *flags)
    assert any(f"INFO done: updates reached {number + 10}" in line for line in journal.lines(tmp_path / "other"))
