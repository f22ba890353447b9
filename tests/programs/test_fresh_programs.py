"""PPO's batches are of the params that they update, in each way to run: its first ratio is exactly 1."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from boonta.nodes import metrics
from boonta.tests.helpers.deadline import DEADLINE_S

ROOT = pathlib.Path(__file__).parents[2]
PROGRAM = """
import sys
import numpy as np
from boonta.nodes.learner import Learner
from boonta.programs.ppo import ppo
from boonta.programs.wiring.launch import main

draw = Learner._draw

def drawn(learner):
    draw(learner)
    ages = learner._updates - np.asarray(learner._drawn[-1][0].steps.version)
    assert (ages == 0).all(), ages

Learner._draw = drawn
main(ppo, sys.argv[1:])
"""
SMALL = [
    "--config.torso.widths",
    "8",
    "--config.unroll-length",
    "4",
    "--config.batch-size",
    "8",
    "--stop.updates",
    "12",
]


@pytest.mark.unoptimised
@pytest.mark.parametrize(
    ("launch", "flags"),
    [
        pytest.param("serial", (), marks=pytest.mark.cluster),
        # Of the others it is shown in tests/nodes, too.
        pytest.param("local_mt", ("--actors", "2", "--num-envs", "2"), marks=[pytest.mark.cluster, pytest.mark.slow]),
        pytest.param("sebulba", (), marks=pytest.mark.slow),
        pytest.param("anakin", (), marks=pytest.mark.slow),
    ],
)
def test_data_is_of_the_params_that_learn(tmp_path, launch, flags):
    if launch in ("serial", "local_mt"):
        pytest.importorskip("launchpad")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), "catch", "--launch", launch, *SMALL, *flags]
    command += ["--workdir", str(tmp_path / "run")]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    row = metrics.read(tmp_path / "run")[-1]
    assert row["updates"] >= 12 and row["env_steps"] >= row["updates"] * 8 * 4
    assert row["policy_lag_max"] == row["policy_lag_allowed"] == 0 and "stale_sequences" not in row
    assert abs(row["rho"] - 1) < 1e-6 and row["rho_error"] < 1e-6


@pytest.mark.parametrize(
    ("launch", "flags", "message"),
    [
        ("anakin", ["--num-envs", "16"], "all actors have 16 environments"),
        ("sebulba", ["--num-envs", "16"], "all actors have 16 environments"),
        ("sebulba", ["--placement.lag", "1"], "data is 1 updates old"),
        ("sebulba", ["--updates-per-step", "2"], "both must be 1, since table 'trajectories' has max_staleness 0"),
        ("anakin", ["--config.max-staleness", "None"], "it must be given, if correction is 'none'"),
    ],
)
def test_what_cannot_keep_it_is_refused_with_words(tmp_path, capsys, launch, flags, message):
    from boonta.programs.ppo import ppo
    from boonta.programs.wiring.launch import main

    with pytest.raises(SystemExit) as ended:
        main(ppo, ["catch", "--launch", launch, "--workdir", str(tmp_path / "run"), *SMALL, *flags])
    assert ended.value.code == 2 and message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()
