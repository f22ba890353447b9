"""What the READMEs say that programs learn, in minutes each: `./run pytest -m slow tests/programs/test_learning.py`.

The runs stop by their rule as soon as they are good enough; the seconds are where they count as failed.
"""

from __future__ import annotations

import pathlib

import pytest

from nodes.match import OPENING, play_match
from programs.match import rival, run_side
from programs.play import agent_and_env
from tests.programs.test_programs import finish, start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2_400)]


def train(program: str, *arguments: str, workdir: pathlib.Path) -> str:
    """Runs a program with seed 0 to its end; what it printed."""
    process = start(*arguments, "--workdir", str(workdir), program=f"programs/{program}.py")
    output = finish(process, timeout_s=2_000)
    assert process.returncode == 0, output
    return output


@pytest.mark.parametrize(
    ("program", "arguments", "seconds"),
    [
        ("anakin_impala", ["catch", "--stop.eval-return", "0.99"], 120),
        ("anakin_impala", ["cartpole", "--stop.eval-return", "490"], 120),
        ("anakin_impala", ["minatar", "--stop.eval-return", "10"], 900),
        ("anakin_muzero", ["catch", "--stop.eval-return", "0.99"], 300),
        pytest.param("muzero_cartpole", ["--stop.eval-return", "475"], 1_200, marks=pytest.mark.cluster),
    ],
)
def test_reaches_the_return(tmp_path, program, arguments, seconds):
    output = train(program, *arguments, "--stop.seconds", str(seconds), workdir=tmp_path)
    assert "\ndone: eval_return reached" in output, output


def test_connect_four_beats_its_first_checkpoint(tmp_path):
    """The same seed gives the same updates, so that the short run is the long one's beginning."""
    early, late = tmp_path / "early", tmp_path / "late"
    train("anakin_muzero", "board", "--stop.updates", "32", workdir=early)
    train("anakin_muzero", "board", "--stop.updates", "2_100", workdir=late)
    agent, env = agent_and_env(late)
    sides = (run_side(agent, late), rival(early, env))
    outcome = play_match(env, 200, sides, seed=0, stopping=lambda: False, opening=OPENING)
    assert (outcome > 0).mean() >= 0.9
