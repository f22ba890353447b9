"""What a cluster refuses before anything runs, and what it gives its nodes."""

from __future__ import annotations

import dataclasses

import pytest

pytestmark = pytest.mark.cluster
launch = pytest.importorskip("boonta.programs.wiring.launch", exc_type=ImportError)
from boonta.agents import muzero  # noqa: E402
from boonta.envs.catch import Catch  # noqa: E402
from boonta.nodes.actor import Actor  # noqa: E402
from boonta.nodes.reanalyzer import Reanalyzer  # noqa: E402
from boonta.programs.wiring.cluster import Cluster  # noqa: E402


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
    fresh = seeds(0)
    assert len({*fresh, *seeds(1)}) == 16 and seeds(0) == fresh
    (tmp_path / "checkpoints" / "90").mkdir(parents=True)
    (tmp_path / "checkpoints" / "100").mkdir()
    resumed = seeds(0)
    assert len({*fresh, *resumed}) == 16 and seeds(0) == resumed
    (tmp_path / "checkpoints" / "110.orbax-checkpoint-tmp").mkdir()  # not whole yet
    assert seeds(0) == resumed
    (tmp_path / "checkpoints" / "110").mkdir()
    assert not {*seeds(0)} & {*fresh, *resumed}


def test_reanalyzers_with_no_replay_table_to_read_are_refused(tmp_path):
    env = Catch()
    agent = muzero.make(dataclasses.replace(muzero.REANALYZE_CATCH, reanalyze_ratio=0.0), env.spec)
    cluster = Cluster("c", launch.Run(workdir=str(tmp_path)), agent, env)
    with pytest.raises(ValueError, match="reanalyzers with no replay table to read"):
        cluster.add_reanalyzers(Reanalyzer, 1)
