"""Numbers of episodes besides their returns, in whole programs and after them."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from boonta.nodes import metrics
from boonta.programs.experiments import evaluations
from boonta.programs.tools import evaluate
from boonta.tests.helpers import guess
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.runs import undeclared

pytestmark = pytest.mark.unoptimised
PROGRAM = pathlib.Path(__file__).parents[1] / "helpers" / "guess_program.py"
SERIAL = ("boonta.tests.helpers.guess:plain", "--env.metrics", "is_success", "steps", "--launch", "serial")


@pytest.mark.parametrize(
    "flags",
    [pytest.param(SERIAL, marks=pytest.mark.cluster), pytest.param(("--launch", "anakin"), marks=pytest.mark.once)],
    ids=["serial", "anakin"],
)
def test_actors_evaluations_and_evaluate_tell_them(tmp_path, capsys, flags):
    if "serial" in flags:
        pytest.importorskip("launchpad")
    command = [sys.executable, str(PROGRAM), *flags, "--stop.updates", "60", "--workdir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not undeclared(tmp_path)
    rows = metrics.read(tmp_path)
    measured = [row for row in rows if "return" in row]
    evaluated = [row for row in rows if "eval_return" in row]
    assert measured and evaluated
    for row in measured:
        assert row["episode/is_success"] == pytest.approx((1 + row["return"]) / 2, abs=1e-5)
        assert row["episode/steps"] == row["episode_steps"] == guess.STEPS
    for row in evaluated:
        assert row["eval_episode/is_success"] == pytest.approx((1 + row["eval_return"]) / 2, abs=1e-5)
        assert row["eval_episode/steps"] == guess.STEPS
    capsys.readouterr()
    evaluate.evaluate((tmp_path,), episodes=8)
    (line,) = map(json.loads, (tmp_path / evaluations.FILE).read_text().splitlines())
    success = sum(earned > 0 for earned in line["returns"]) / 8
    assert line["metrics"] == {"is_success": success, "steps": float(guess.STEPS)}
    assert f" over 8 episodes, sampled, is_success {success:.4g}, steps {guess.STEPS}\n" in capsys.readouterr().out
    evaluate.evaluate((tmp_path,), episodes=8)  # It is found, with its numbers, and not done again.
    assert f"is_success {success:.4g}, steps {guess.STEPS}, from before\n" in capsys.readouterr().out
    evaluate.evaluate((tmp_path,), episodes=8, max_steps=1)
    assert "metrics" not in json.loads((tmp_path / evaluations.FILE).read_text().splitlines()[1])
