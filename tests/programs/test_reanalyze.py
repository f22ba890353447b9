"""Whole programs with reanalyzers, as threads and in one thread; and programs that lack them."""

from __future__ import annotations

import dataclasses

import pytest

from nodes import metrics
from tests.programs.test_programs import finish, start

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(480)]
launch = pytest.importorskip("programs.launch", exc_type=ImportError)
from agents import muzero  # noqa: E402
from envs.catch import Catch  # noqa: E402
from nodes.actor import Actor  # noqa: E402
from nodes.reanalyzer import Reanalyzer  # noqa: E402
from programs.cluster import Cluster  # noqa: E402

TINY = "width=8 layers=1 head-width=8 num-simulations=2 roots=4 unroll-length=2 bootstrap-length=2 batch-size=8"
FEW = "min-replay-size=16 consistency-cost=0 search=puct"


def run(workdir, *arguments: str) -> dict[str, float]:
    """The last row of metrics."""
    config = [
        part for pair in f"{TINY} {FEW}".split() for part in (f"--config.{pair.split('=')[0]}", pair.split("=")[1])
    ]
    program = "programs/muzero_reanalyze_catch.py"
    process = start("--workdir", str(workdir), "--num-envs", "8", *config, *arguments, program=program)
    output = finish(process, timeout_s=400)
    assert process.returncode == 0, output
    assert "done: updates reached" in output, output
    return metrics.read(workdir)[-1]


@pytest.mark.parametrize("schedule", ["local_mt", "serial"])
def test_learns_from_what_reanalyzers_renew(tmp_path, schedule):
    row = run(tmp_path, "--launch", schedule, "--stop.updates", "150")
    assert row["updates"] >= 150 and row["env_steps"] > 0
    assert row["batch_share/reanalyzed"] > 0.2  # of the last hundred updates; 0.75 where nobody is late
    assert row["batch_share_wanted/reanalyzed"] == 0.75  # 6 of 8
    assert row["batch_share/reanalyzed"] + row["batch_share/trajectories"] == pytest.approx(1)
    assert row["reanalyzed_steps"] >= 8 * row["reanalyzed_sequences"] > 0
    assert row["target_age/reanalyzed"] < row["target_age/trajectories"]


def test_a_table_that_nobody_fills_is_refused(tmp_path):
    env = Catch()
    agent = muzero.make(muzero.REANALYZE_CATCH, env.spec)
    cluster = Cluster("c", launch.Run(workdir=str(tmp_path)), agent, env)
    with pytest.raises(ValueError, match="the number of actors is 0; it must be at least 1"):
        cluster.add_actors(Actor, 0)
    with pytest.raises(ValueError, match="reads table 'trajectories', which actors fill, and the program has none"):
        _ = cluster.program
    cluster.add_actors(Actor, 1)
    with pytest.raises(ValueError, match="reads table 'reanalyzed', which reanalyzers fill, and the program has none"):
        _ = cluster.program
    cluster.add_reanalyzers(Reanalyzer, 1)
    assert set(cluster.program.groups) >= {"actor", "reanalyzer"}


def test_actors_have_seeds_of_their_own(tmp_path):
    def seeds(seed):
        cluster = Cluster("c", launch.Run(workdir=str(tmp_path), seed=seed), agent, Catch())
        cluster.add_actors(Actor, 8)
        return [node._kwargs["seed"] for node in cluster.program.groups["actor"]]

    agent = muzero.make(muzero.CATCH, Catch().spec)
    assert len({*seeds(0), *seeds(1)}) == 16 and seeds(0) == seeds(0)


def test_reanalyzers_with_no_replay_table_to_read_are_refused(tmp_path):
    env = Catch()
    agent = muzero.make(dataclasses.replace(muzero.REANALYZE_CATCH, reanalyze_ratio=0.0), env.spec)
    cluster = Cluster("c", launch.Run(workdir=str(tmp_path)), agent, env)
    with pytest.raises(ValueError, match="reanalyzers with no replay table to read"):
        cluster.add_reanalyzers(Reanalyzer, 1)
