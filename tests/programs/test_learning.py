"""The READMEs' learning results, in minutes or an hour: `./run pytest -m slow tests/programs/test_learning.py`.

The runs stop by their rule as soon as they are good enough; the seconds are where they count as failed.
"""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from boonta.programs.tools.match import match
from boonta.tests.helpers.launched import finish, start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(8_000)]

GOAL = ("--stop.eval-return",)
FUSED = ("--launch", "anakin", *GOAL)
SMALL = [
    *("--config.layers.widths", "64", "64", "--config.replay.batch-size", "128", "--stop.env-steps", "20000"),
    *("--config.policy-optimiser.learning-rate", "1e-3", "--config.critic-optimiser.learning-rate", "1e-3"),
]
CONNECT_FOUR = ["--launch", "anakin", "--config.optimiser.anneal-updates", "20_000"]
PIG = [
    "open_spiel/pig(players=2,winscore=20)",
    "--env.passes",
    "--config.bootstrap-length",
    "30",
    "--config.value-cost",
    "1",
]


def train(program: str, *arguments: str, workdir: pathlib.Path) -> str:
    """Runs a program with seed 0 to its end; what it printed."""
    process = start(*arguments, "--workdir", str(workdir), program=f"programs/{program}.py")
    output = finish(process, timeout_s=7_000)
    assert process.returncode == 0, output
    return output


@pytest.mark.parametrize(
    ("program", "arguments", "seconds"),
    [
        ("impala", ["catch", *FUSED, "0.99"], 120),
        ("impala", ["gymnax/CartPole-v1", *FUSED, "490"], 120),
        ("impala", ["minatar/breakout", *FUSED, "10"], 900),
        ("muzero", ["catch", *FUSED, "0.99"], 300),
        ("reanalyze", ["catch", *FUSED, "0.99"], 600),
        (
            "muzero",
            ["minatar/breakout", "--env.minimal-actions", *FUSED, "10"],
            2_400,
        ),  # 3.10's JAX is a third as fast
        *((program, ["gymnax/Pendulum-v1", *FUSED, "-200", *SMALL], 900) for program in ("sac", "td3", "ddpg")),
        pytest.param("muzero", ["gymnasium/CartPole-v1", *GOAL, "475"], 1_200, marks=pytest.mark.cluster),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_reaches_the_return(tmp_path, program, arguments, seconds):
    output = train(program, *arguments, "--stop.seconds", str(seconds), workdir=tmp_path)
    assert "\ndone: eval_return reached" in output, output


def test_connect_four_beats_its_first_checkpoint_and_tree_search(tmp_path):
    """The same seed gives the same updates, so that the short run is the long one's beginning."""
    early, late = tmp_path / "early", tmp_path / "late"
    train("self_play", "pgx/connect_four", *CONNECT_FOUR, "--stop.updates", "32", workdir=early)
    train("self_play", "pgx/connect_four", *CONNECT_FOUR, "--stop.updates", "20_000", workdir=late)
    assert (match(late, str(early), games=200) > 0).mean() >= 0.9
    assert (match(late, "uct:1000", simulations=400) > 0).mean() >= 0.8


@pytest.mark.cluster
def test_tic_tac_toe_does_not_lose_to_perfect_play(tmp_path):
    train("self_play", "--stop.seconds", "1150", workdir=tmp_path)
    outcome = match(tmp_path, "perfect", games=200)
    assert max(np.sum(outcome[side::2] < 0) for side in (0, 1)) <= 1  # Each side plays 100 games.


@pytest.mark.cluster
def test_pig_is_played_better_by_who_knows_chance(tmp_path):
    train("self_play", *PIG, "--config.search", "stochastic", "--stop.seconds", "300", workdir=tmp_path)
    assert (match(tmp_path, "uct:100", games=200) > 0).mean() >= 0.6
