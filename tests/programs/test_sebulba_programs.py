"""Whole Sebulba programs, on every Python: they learn, and neither Launchpad nor Reverb nor TensorFlow is there."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from agents import impala
from nodes import metrics
from nodes.sebulba import Placement
from programs import play
from programs.run import Run
from programs.sebulba_impala_atari import sebulba_impala_atari
from programs.sebulba_impala_catch import sebulba_impala_catch
from programs.solo import main

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A run of Catch that ended when it had learned, in a process of its own, and what it printed."""
    folder = tmp_path_factory.mktemp("run")
    code = (
        "import sys; sys.modules.update(launchpad=None, reverb=None, tensorflow=None, courier=None)\n"
        "from programs.sebulba_impala_catch import sebulba_impala_catch\n"
        "from programs.solo import main\n"
        f"main(sebulba_impala_catch, arguments=['--workdir', {str(folder)!r}, '--stop.eval-return', '0.95'])"
    )
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=280, cwd=ROOT, env=environment
    )
    return folder, done


def test_impala_learns_catch(learned):
    folder, done = learned
    assert done.returncode == 0, done.stderr
    assert "done: eval_return reached" in done.stdout
    last = metrics.read(folder)[-1]
    assert last["eval_return"] >= 0.95 and last["policy_lag"] >= 0 and last["env_steps"] > 0
    assert list((folder / "checkpoints").iterdir())


def test_its_checkpoint_is_played(learned, capsys):
    folder, _ = learned
    play.play(folder)
    assert "in 9 env steps" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--placement.acting", "99"], "placement.acting is 99 and placement.learning 1; this process has"),
        (["--placement.num-envs", "24"], "24 environments step together, and batch_size is 16"),
        (["--placement.lag", "-1"], "placement.lag is -1"),  # told by tyro, in lines of its own
    ],
)
def test_bad_input_is_refused_before_anything_starts(tmp_path, capsys, flags, said):
    with pytest.raises(SystemExit) as ended:
        main(sebulba_impala_catch, arguments=["--workdir", str(tmp_path / "run"), *flags])
    assert ended.value.code == 2 and said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_atari_program_builds_every_node():
    config = impala.Config(batch_size=4, queue_size=4)
    program = sebulba_impala_atari(Run(), "Pong", Placement(num_envs=2, lag=3), config)
    _, nodes = program.build()
    assert [node.name for node in nodes] == ["learner", "actor/0", "evaluator"]
