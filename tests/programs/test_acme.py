"""The scripts of the page "Coming from Acme" run as they are written, where MuZero learns from an Acme actor alone."""

from __future__ import annotations

import pathlib
import signal

import pytest

from boonta.nodes import metrics
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.examples import python_blocks
from boonta.tests.helpers.running import Running
from boonta.tests.helpers.runs import undeclared

pytestmark = [pytest.mark.cluster, pytest.mark.unoptimised]
pytest.importorskip("launchpad")
PAGE = pathlib.Path(__file__).resolve().parents[2] / "nodes" / "acme" / "README.md"
PROGRAM, CHECKPOINT, PUBLISHED, _ = python_blocks(PAGE)
TINY = "torso.widths=8 head-width=8 num-simulations=2 roots=4 unroll-length=2 bootstrap-length=2 support-bins=21"
FEW = "replay.batch-size=8 replay.min-size=8 consistency-cost=0 search=puct"


def test_the_scripts_of_the_page_run_on_one_program(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # Acme's own logger writes there.
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "from_acme.py"
    script.write_text(PROGRAM)
    assert len([line for line in PROGRAM.splitlines() if line.strip()]) <= 30
    workdir = tmp_path / "runs" / "from_acme"
    config = [f"--config.{pair}" for pair in f"{TINY} {FEW}".split()]
    arguments = ["--launch", "local_mt", "--evaluation.episodes", "1", *config]
    names: dict = {}
    with Running(tmp_path, str(script), *arguments, workdir=workdir) as program:
        program.wait_until(lambda: any(row["updates"] >= 8 for row in program.rows), "it learns")
        monkeypatch.syspath_prepend(str(tmp_path))
        setup, _, loop = CHECKPOINT.partition("actor = ")  # There is no checkpoint yet.
        exec(setup, names)
        exec(PUBLISHED, names)
        assert names["source"].version > 0
        program.process.send_signal(signal.SIGTERM)
        program.process.wait(timeout=DEADLINE_S)
    exec(f"actor = {loop}", names)
    rows = metrics.read(workdir)
    assert not undeclared(workdir)
    assert rows[-1]["env_steps"] > 100 and rows[-1]["acme/episode_length"] == 9
    assert rows[-1]["batch_share/reanalyzed"] == 1.0 and "batch_share/past" not in rows[-1]
    assert rows[-1]["reanalyzed_sequences"] >= 8
    assert list((tmp_path / "acme").rglob("*.csv"))


@pytest.mark.slow
def test_muzero_learns_catch_from_a_scripted_acme_actor_alone(tmp_path):
    """The script catches the ball in two thirds of its episodes, which is a return of a third."""
    script = tmp_path / "from_acme.py"
    script.write_text(PROGRAM)
    with Running(tmp_path, str(script), "--stop.eval-return", "0.95", "--stop.seconds", "700") as program:
        program.finish(0, deadline_s=800)
    rows = metrics.read(program.workdir)
    assert rows[-1]["eval_return"] >= 0.95 and rows[-1]["return"] < 0.6


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["dqn", "impala", "r2d2", "sac"])
def test_acmes_own_agents_act_and_learn_as_a_program(agent, tmp_path):
    env = "gymnasium/Pendulum-v1" if agent == "sac" else "catch"
    arguments = [env, "--agent", agent, "--stop.env-steps", "3000", "--stop.seconds", "300"]
    with Running(tmp_path, "benchmarks/peers/acme_agents.py", *arguments) as program:
        program.finish(0, deadline_s=350)
    last = metrics.read(program.workdir)[-1]
    assert last["env_steps"] >= 3000 and last["updates"] > 0 and "return" in last
