"""Whole programs with reanalyzers, as threads around Reverb and without it, in one thread, and fused."""

from __future__ import annotations

import pytest

from boonta.nodes import metrics
from boonta.tests.helpers.launched import SMALL_SEARCH, finish, start
from boonta.tests.helpers.runs import undeclared

pytestmark = pytest.mark.unoptimised

TINY = "torso.widths=8 head-width=8 num-simulations=2 roots=4 unroll-length=2 bootstrap-length=2"
FEW = "replay.batch-size=8 replay.min-size=16 consistency-cost=0 search=puct"


def run(workdir, *arguments: str) -> dict[str, float]:
    """The last row of metrics."""
    config = [
        part for pair in f"{TINY} {FEW}".split() for part in (f"--config.{pair.split('=')[0]}", pair.split("=")[1])
    ]
    program = "programs/reanalyze.py"
    others = ["--num-envs", "8", "--evaluation.every-s", "3600", *config]  # An evaluation would compile.
    process = start("--workdir", str(workdir), *others, *arguments, program=program)
    output = finish(process)
    assert process.returncode == 0, output
    assert "done: updates reached" in output, output
    assert not undeclared(workdir)
    return metrics.read(workdir)[-1]


@pytest.mark.parametrize(
    "schedule",
    [
        pytest.param("local_mt", marks=pytest.mark.cluster),
        pytest.param("serial", marks=[pytest.mark.cluster, pytest.mark.slow]),
        pytest.param("sebulba", marks=SMALL_SEARCH),
        pytest.param("anakin", marks=SMALL_SEARCH),
    ],
)
def test_learns_from_what_reanalyzers_renew(tmp_path, schedule):
    # What the learner alone reads is on its device then, and what the reanalyzer reads on the host.
    placement = ["--placement.replay", "device"] if schedule == "sebulba" else []
    row = run(tmp_path, "--launch", schedule, "--stop.updates", "150", *placement)
    assert row["updates"] >= 150 and row["env_steps"] > 0
    assert row["batch_share_wanted/reanalyzed"] == 0.75  # 6 of 8
    assert row["batch_share/reanalyzed"] + row["batch_share/trajectories"] == pytest.approx(1)
    assert row["reanalyzed_steps"] >= 8 * row["reanalyzed_sequences"] > 0
    assert row["batch_share/reanalyzed"] > 0
    if schedule == "anakin":  # Each ratio is exact, but for what fills the tables first.
        assert row["batch_share/reanalyzed"] == 0.75
        assert 0 <= row["reanalyzed_sequences"] - row["updates"] * 6 / 4 <= 16
        assert 0 <= row["env_steps"] / 4 - row["updates"] * 2 / 4 <= 16 + 3 * 8
        assert row["target_age/reanalyzed"] < row["target_age/trajectories"]
    if schedule == "serial":  # How many turns threads leave to the reanalyzer, no test can say.
        assert row["batch_share/reanalyzed"] > 0.2  # A mean of the last hundred updates; at most 0.75.
        assert row["target_age/reanalyzed"] < row["target_age/trajectories"]
