"""A whole program with two replay servers: both are drawn from, one of them is killed, and the run is resumed."""

from __future__ import annotations

import os
import signal

import pytest

from boonta.nodes.snapshots.store import numbers
from boonta.tests.helpers.kept import newest_whole
from boonta.tests.helpers.running import Running

pytestmark = [pytest.mark.cluster, pytest.mark.unoptimised]
PROGRAM = (
    *("tests/helpers/shards_program.py", "catch", "--replay-servers", "2"),
    *("--config.replay.sampler", "proportional", "--evaluation.every-s", "1000", "--save-every-s", "1000"),
)
SHARDS = ("replay/0", "replay/1")


def kill(run: Running, name: str) -> dict[str, int]:
    """Kills a node; returns the processes of all nodes before."""
    before = run.pids
    os.kill(before[name], signal.SIGKILL)
    return before


def test_a_run_goes_on_without_a_killed_server_and_is_resumed_with_both(tmp_path):
    with Running(tmp_path, *PROGRAM, "--restarts.backoff-s", "1000") as run:
        run.wait_until_it_works()
        sampled = lambda: [run.rows[-1].get(f"transitions/sampled/{name}", 0) for name in SHARDS]  # noqa: E731
        run.wait_until(lambda: min(sampled()) > 0, "both give samples")
        before = kill(run, "replay/1")
        run.wait_until(lambda: "replay/1 was killed by SIGKILL" in run.printed, "its death is noticed")
        run.wait_until_it_works()  # Of the actor's two groups of environments one goes on.
        assert run.pids == before
        run.end()
    saved = numbers(run.workdir / "checkpoints")[-1]
    assert numbers(run.workdir / "replay" / "0_of_2")[-1] == saved
    with Running(tmp_path, *PROGRAM) as again:
        empty = f"replay/1: the tables start empty, though the learner goes on from update {saved:,}"
        again.wait_until(lambda: empty in again.printed, "it tells")  # The learner may already work with the other one.
        again.wait_until_it_works()
        assert "replay/0: the tables" not in again.printed
        before = kill(again, "replay/0")
        again.wait_until(lambda: again.pids["replay/0"] != before["replay/0"], "it starts again")
        again.wait_until_it_works()
        assert {**again.pids, "replay/0": 0} == {**before, "replay/0": 0}
        again.end()
    last = numbers(run.workdir / "checkpoints")[-1]
    assert last > saved and newest_whole(run.workdir) == last
    assert all(numbers(run.workdir / "replay" / f"{i}_of_2")[-1] == last for i in range(2))
