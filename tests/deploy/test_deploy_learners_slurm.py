"""The whole layout under a real Slurm of two machines: an actor and a learner are killed, and it learns Catch."""

from __future__ import annotations

import os
import pathlib
import signal
import time
from collections.abc import Callable

import pytest

pytest.importorskip("launchpad")

from boonta.deploy import slurm
from boonta.tests.helpers import kept
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.runs import processes
from boonta.tests.helpers.slurm_cluster import Slurm, missing

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.slurm,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]
ROOT = pathlib.Path(__file__).parents[2]
LEARNS_S = 1200.0
OVER = ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL")
ALL = ("catch", "--learners", "2", "--replay-servers", "2", "--actors", "4", "--save-every-s", "5")
PLACES = 6  # Of each machine: there are eleven nodes, or twelve with a reanalyzer.


class Job:
    """A program's job.

    Args:
      cluster: where it is submitted.
      folder: for its script, and its run.
      program: the program's file.
      flags: its flags.
    """

    def __init__(self, cluster: Slurm, folder: pathlib.Path, program: pathlib.Path, *flags: str):
        self.run, self._cluster, script = folder / "run", cluster, folder / "job.sbatch"
        job = slurm.Job(program, nodes=2, tasks_per_node=PLACES)
        script.write_text(slurm.render(job, [*flags, "--workdir", str(self.run)]))
        self.number = cluster.submit(script)
        self._log = cluster.folder / f"{program.stem}-{self.number}.log"

    def __getitem__(self, name: str) -> str:
        """What Slurm says of it."""
        return self._cluster.job(self.number).get(name, "")

    @property
    def printed(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_until(self, condition: Callable[[], bool], what: str, limit_s: float = DEADLINE_S) -> None:
        end = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < end, f"{what} did not come in {limit_s:.0f} s: {self._cluster.logs()}"
            time.sleep(0.5)

    def wait_until_it_learns(self) -> None:
        """Waits until updates have been made from now on."""
        before = len(kept.rows(self.run))
        self.wait_until(lambda: len(made := self.updates[before:]) > 1 and made[-1] > made[0], "updates")

    @property
    def updates(self) -> list[float]:
        """The updates in each row."""
        return [row.get("updates", 0.0) for row in kept.rows(self.run)]

    def kill(self, name: str) -> None:
        """Kills a node, whose process is that of its newest life."""
        os.kill(processes(self.run)[name], signal.SIGKILL)


@pytest.mark.parametrize(("program", "more"), [("impala", ()), ("reanalyze", ("--reanalyzers", "1"))])
def test_an_actor_and_a_learner_are_killed_and_it_learns_catch(tmp_path, program, more):
    file, flags = ROOT / "programs" / f"{program}.py", (*ALL, *more)
    (tmp_path / "slurm").mkdir()
    with Slurm(tmp_path / "slurm", cpus=PLACES) as cluster:
        job = Job(cluster, tmp_path, file, *flags)
        job.wait_until_it_learns()
        job.kill("actor/1")
        job.wait_until(lambda: kept.lives(job.run, "actor/1") == 2, "the actor's next life")
        assert "actor 1 died with code 137, and starts again" in job.printed and job["Restarts"] == "0"
        job.wait_until_it_learns()
        job.wait_until(lambda: kept.newest_whole(job.run) > 0, "a checkpoint")
        whole = kept.newest_whole(job.run)
        assert not kept.begun_with(job.run)  # All of this was one turn,
        one_turn = [row for row in kept.rows(job.run) if "env_steps" in row]
        kept.require_no_falls(one_turn, {"env_steps": 1.0})  # in which the actor's steps stayed counted.
        job.kill("learner/1")
        job.wait_until(lambda: job["Restarts"] == "1", "the job's return to the queue")
        job.wait_until(lambda: kept.begun_with(job.run).get("updates", 0.0) > 0, "its next turn")
        since, begun = len(kept.rows(job.run)), kept.begun_with(job.run)
        assert begun["updates"] >= whole
        job.wait_until_it_learns()
        kept.require_no_falls(kept.rows(job.run)[since:], begun)
        cluster.do("scancel", job.number)
        job.wait_until(lambda: job["JobState"] in OVER, "its end")
        last = Job(cluster, tmp_path, file, *flags, "--stop.eval-return", "0.95")
        last.wait_until(lambda: last["JobState"] in OVER, "the end of the work", LEARNS_S)
        assert (last["JobState"], last["Restarts"]) == ("COMPLETED", "0"), cluster.logs()
    assert kept.rows(last.run)[-1]["eval_return"] >= 0.95
