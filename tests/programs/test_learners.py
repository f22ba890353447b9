"""Whole programs whose learner is two processes: they learn as one, end as one, and start again as one."""

from __future__ import annotations

import json
import os
import pathlib
import signal

import pytest

from boonta.nodes import metrics
from boonta.nodes.snapshots.store import numbers
from boonta.nodes.watch.status import STATUS
from boonta.tests.helpers.running import Running

pytestmark = [pytest.mark.cluster, pytest.mark.unoptimised]
TINY = ("tests/helpers/tiny_program.py", "--learners", "2")
LEARNERS = ("learner/0", "learner/1")


def saved(workdir: pathlib.Path) -> int:
    return max(numbers(workdir / "checkpoints"), default=0)


def activities(workdir: pathlib.Path) -> dict[str, str]:
    """What each learner does, as far as they have reported."""
    try:
        nodes = json.loads((workdir / STATUS).read_text())["nodes"]
    except (OSError, ValueError):
        return {}
    return {name: nodes[name]["activity"] for name in LEARNERS if name in nodes}


def test_they_learn_until_the_rule_and_resume_and_ctrl_c_saves(tmp_path):
    with Running(tmp_path, *TINY, "--stop.updates", "100") as run:
        run.finish(0)
        assert set(LEARNERS) < set(run.pids)
    first = saved(run.workdir)
    assert first >= 100 and "done: updates reached" in run.printed
    row = metrics.read(run.workdir)[-1]
    assert first - 2 <= row["updates"] <= first  # Each update is counted once.
    assert 0 < row["start_s/connecting"] < row["start_s"]
    with Running(tmp_path, *TINY) as again:
        again.wait_until_it_works()
        again.end(signal.SIGINT)
    assert saved(run.workdir) > first and "learner/1: " not in again.printed


@pytest.mark.parametrize("victim", ["learner/1", pytest.param("learner/0", marks=pytest.mark.slow)])
def test_one_that_is_killed_takes_the_other_along_and_both_go_on_from_the_newest_checkpoint(tmp_path, victim):
    with Running(tmp_path, *TINY, "--save-every-s", "1") as run:
        run.wait_until(lambda: saved(run.workdir) > 0, "a checkpoint")
        before = run.pids
        os.kill(before[victim], signal.SIGKILL)
        changed = lambda: [name for name in before if run.pids[name] != before[name]]  # noqa: E731
        run.wait_until(lambda: sorted(changed()) == sorted(LEARNERS), "both start again")
        run.wait_until_it_works()
        assert sorted(changed()) == sorted(LEARNERS)
        assert f"{victim} was killed by SIGKILL" in run.printed and run.printed.count("starts again in") == 1
        run.end()


@pytest.mark.slow
def test_ppo_learns_from_data_of_the_params_that_it_updates(tmp_path):
    small = ("--config.torso.widths", "8", "--config.unroll-length", "4", "--config.batch-size", "8", "--actors", "2")
    with Running(tmp_path, "programs/ppo.py", "catch", "--learners", "2", "--stop.updates", "400", *small) as run:
        run.finish(0)
    rows = metrics.read(run.workdir)
    before_the_end = [row for row in rows if 0 < row.get("updates", 0) < 400 and "policy_lag_max" in row]
    assert before_the_end and {row["policy_lag_max"] for row in before_the_end} == {0.0}
    assert all(abs(row["rho"] - 1) < 1e-6 for row in before_the_end)
    assert not any(row.get("stale_sequences") for row in before_the_end)


@pytest.mark.slow
def test_without_restarts_the_one_that_was_killed_is_named(tmp_path):
    with Running(tmp_path, *TINY, "--restarts.number", "0") as run:
        run.wait_until_it_works()
        os.kill(run.pids["learner/0"], signal.SIGKILL)
        assert "error: learner/0 was killed by SIGKILL while " in run.finish(1)


@pytest.mark.slow
def test_they_end_well_though_they_never_had_a_batch(tmp_path):
    with Running(tmp_path, *TINY, "--width", "100000") as run:
        waiting = dict.fromkeys(LEARNERS, "waiting for trajectories")
        run.wait_until(lambda: activities(run.workdir) == waiting, "both wait")
        run.end(signal.SIGINT)
    assert not saved(run.workdir)


@pytest.mark.slow
def test_impala_reaches_catchs_bar_with_two_learners_and_two_replay_servers(tmp_path):
    flags = ("--learners", "2", "--replay-servers", "2", "--stop.eval-return", "0.95", "--stop.seconds", "400")
    with Running(tmp_path, "programs/impala.py", "catch", *flags) as run:
        assert "done: eval_return reached" in run.finish(0, 460.0)


@pytest.mark.slow
def test_inference_nodes_act_with_the_params_that_the_first_of_two_learners_publishes(tmp_path):
    flags = ("--learners", "2", "--inference", "2", "--stop.updates", "100")
    with Running(tmp_path, "tests/helpers/inference_program.py", *flags) as run:
        assert "done: updates reached" in run.finish(0)
        assert {*LEARNERS, "inference/0", "inference/1"} < set(run.pids)
    row = metrics.read(run.workdir)[-1]
    assert row["updates"] >= 98 and row["inferences"] > 0
    assert row["policy_lag_max"] < row["updates"]  # They have had newer params than the first.
