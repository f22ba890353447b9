"""Two learners of a rendered JobSet, or of a Slurm job, run: they learn as one, nodes are killed, and it goes on."""

from __future__ import annotations

import itertools
import json
import pathlib
import signal
import time
from collections.abc import Sequence

import pytest

pytest.importorskip("launchpad")

from boonta.agents.base import Table
from boonta.deploy import jobset, roles, slurm, tpu_vm
from boonta.deploy.program import build
from boonta.deploy.resources import Resources, ResourceTable
from boonta.nodes import metrics
from boonta.nodes.rpc import keys
from boonta.nodes.snapshots.store import numbers
from boonta.nodes.watch.status import STATUS
from boonta.tests.helpers import kept, namespaces, pods, slurm_cluster, ssh
from boonta.tests.helpers.apart import free_ports
from boonta.tests.helpers.runs import saved

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(2400)]
ROOT = pathlib.Path(__file__).parents[2]
TINY = ROOT / "tests" / "helpers" / "tiny_program.py"
ON_CPU = ResourceTable("image", groups={"learner": Resources(volume="1Gi")})
LIMIT_S = 240.0
ALL = ("catch", "--learners", "2", "--replay-servers", "2", "--actors", "4", "--save-every-s", "5")


def rendered(program: pathlib.Path, monkeypatch, folder: pathlib.Path, *flags: str):
    monkeypatch.setattr(roles, "WORKDIR", str(folder))
    monkeypatch.setattr(roles, "KEY", str(folder / "rpc.pem"))
    keys.make_once(folder / "rpc.pem")
    manifest, _ = jobset.render(jobset.prepare(program, list(flags), ON_CPU))
    return manifest, folder / manifest["metadata"]["name"]


def updates_of(workdir: pathlib.Path, before: int = 0) -> float:
    """The updates in the newest row, of those after so many rows."""
    return max((row["updates"] for row in kept.rows(workdir)[before:] if row.get("updates")), default=0.0)


def grow(running: pods.Pods, workdir: pathlib.Path) -> None:
    """Waits until updates have been made from now on."""
    before = updates_of(workdir)
    assert not running.run(lambda: updates_of(workdir) > before), running.output()


def starts(running: pods.Pods, *but: str) -> list[int]:
    """How often each pod has started, those of some roles left out."""
    return [pod.starts for pod in running.pods if pod.label not in but]


def snapshots_after(running: pods.Pods, folder: pathlib.Path, before: int) -> int:
    """Waits for a snapshot with a higher number than this one; returns its number."""
    assert not running.run(lambda: max(numbers(folder), default=0) > before), running.output()
    return max(numbers(folder))


def kill_alone(running: pods.Pods, workdir: pathlib.Path, label: str) -> None:
    """Kills the second pod of a dispensable or replay group; it comes back alone, and the learners go on."""
    running.pod(label, 1).process.kill()
    assert not running.run(lambda: running.pod(label, 1).starts == 2), running.output()
    assert not running.run(lambda: kept.lives(workdir, f"{label}/1") == 2), running.output()
    grow(running, workdir)


def kill_a_shard(running: pods.Pods, workdir: pathlib.Path, tables: Sequence[Table]) -> None:
    """Kills replay/1, which comes back with what it saved last, while replay/0 keeps what it has."""
    on = lambda row, i: kept.on_server(row, tables, f"replay/{i}")  # noqa: E731
    assert not running.run(lambda: any(on(row, 1) for row in kept.rows(workdir))), running.output()
    first = [row for row in kept.rows(workdir) if on(row, 1)][-1]
    saved_last, folder = max(numbers(workdir / "replay" / "1_of_2"), default=0), workdir / "replay" / "1_of_2"
    for _ in range(2):  # One snapshot may have been under way when the row was made; the next one has all that it says.
        saved_last = snapshots_after(running, folder, saved_last)
    kill_alone(running, workdir, "replay")
    since = len(kept.rows(workdir)) + 1  # One row may have been made before its new life was known.
    assert not running.run(lambda: any(on(row, 1) for row in kept.rows(workdir)[since:])), running.output()
    back = next(on(row, 1) for row in kept.rows(workdir)[since:] if on(row, 1))
    kept.require_no_falls([back], on(first, 1))
    others = [on(row, 0) for row in kept.rows(workdir) if on(row, 0)]
    kept.require_no_falls(others, others[0])


def kill_a_learner(running: pods.Pods, workdir: pathlib.Path, index: int) -> None:
    """Kills a learner, so that the whole set starts again, and goes on from the newest checkpoint."""
    down: list[kept.Down] = []
    running.when_down = lambda: down.append(kept.Down.of(workdir))
    seen, before = kept.newest_whole(workdir), running.restarts
    snapshots_after(running, workdir / "checkpoints", seen)
    assert not running.run(lambda: kept.newest_whole(workdir) > seen), running.output()
    whole = kept.newest_whole(workdir)
    running.pod("learner", index).process.send_signal(signal.SIGKILL)
    assert not running.run(lambda: running.restarts == before + 1), running.output()
    assert down[0].checkpoint >= whole
    assert not running.run(lambda: updates_of(workdir, down[0].rows) > down[0].checkpoint), running.output()
    down[0].require_resumed(workdir)
    nodes = json.loads((workdir / STATUS).read_text())["nodes"]
    told = [warning for i in range(2) for warning in nodes[f"replay/{i}"]["warnings"]]
    assert not [warning for warning in told if "the tables" in warning]  # They are those of the checkpoint.


@pytest.mark.skipif(bool(namespaces.missing()), reason=namespaces.missing())
@pytest.mark.parametrize(("program", "more"), [("impala", ()), ("reanalyze", ("--reanalyzers", "1"))])
def test_an_actor_a_shard_and_both_learners_are_killed_and_it_learns_catch(tmp_path, monkeypatch, program, more):
    file, flags = ROOT / "programs" / f"{program}.py", (*ALL, *more)
    tables = build(file, flags).program.agent.tables
    manifest, workdir = rendered(file, monkeypatch, tmp_path, *flags)
    with pods.Pods(manifest, tmp_path) as running:
        grow(running, workdir)
        kill_alone(running, workdir, "actor")
        kill_a_shard(running, workdir, tables)
        # Nobody restored a checkpoint: what the killed ones had counted stays, and is added to.
        counted = itertools.dropwhile(lambda row: "env_steps" not in row, kept.rows(workdir))
        kept.require_no_falls(list(counted), {"env_steps": 1.0})
        assert running.restarts == 0 and sorted(starts(running)) == [1] * (len(running.pods) - 2) + [2, 2]
        for killed, index in enumerate((1, 0), start=1):
            kill_a_learner(running, workdir, index)
            assert running.restarts == killed and set(starts(running, "actor", "replay")) == {1 + killed}
        running.end()
    manifest, _ = rendered(file, monkeypatch, tmp_path, *flags, "--stop.eval-return", "0.95")
    with pods.Pods(manifest, tmp_path) as running:
        assert running.run(lambda: False, 1200.0), running.output()
        running.end()
        codes = {f"{pod.label}/{pod.index}": pod.process.returncode for pod in running.pods}
        assert running.restarts == 0 and codes["learner/0"] == codes["learner/1"] == 0, running.output()
    assert metrics.read(workdir)[-1]["eval_return"] >= 0.95


@pytest.mark.skipif(bool(namespaces.missing()), reason=namespaces.missing())
def test_a_learners_pod_that_is_asked_to_end_saves_with_the_other_one(tmp_path, monkeypatch):
    manifest, workdir = rendered(TINY, monkeypatch, tmp_path, "--learners", "2", "--save-every-s", "1000")
    with pods.Pods(manifest, tmp_path) as running:
        grow(running, workdir)
        both = [running.pod("learner", i) for i in range(2)]
        both[1].process.send_signal(signal.SIGTERM)
        until = time.monotonic() + LIMIT_S
        while any(pod.process.poll() is None for pod in both):
            assert time.monotonic() < until, running.output()
            time.sleep(0.2)
        assert [pod.process.returncode for pod in both] == [143, 143], running.output()
        assert "learner/1 was asked to end" in running.output()
    assert saved(workdir) > 0


@pytest.mark.slurm
@pytest.mark.skipif(bool(slurm_cluster.missing()), reason=slurm_cluster.missing())
def test_slurm_runs_a_learner_on_each_machine_until_the_work_is_done(tmp_path):
    flags = ("--learners", "2", "--stop.updates", "100", "--workdir", str(tmp_path / "run"))
    (tmp_path / "slurm").mkdir()
    (tmp_path / "job.sbatch").write_text(slurm.render(slurm.Job(TINY, nodes=2, tasks_per_node=4), flags))
    with slurm_cluster.Slurm(tmp_path / "slurm") as cluster:
        number = cluster.submit(tmp_path / "job.sbatch")
        until = time.monotonic() + LIMIT_S
        while cluster.job(number).get("JobState") not in ("COMPLETED", "FAILED"):
            assert time.monotonic() < until, cluster.logs()
            time.sleep(0.5)
        assert cluster.job(number)["JobState"] == "COMPLETED", cluster.logs()
    assert saved(tmp_path / "run") >= 100


def test_over_ssh_two_learners_run_until_the_work_is_done(tmp_path, monkeypatch):
    """A script that runs the command here replaces `ssh`."""
    ssh.stand_in(tmp_path, monkeypatch)
    machines = tpu_vm.Machines(TINY, "127.0.0.1,127.0.0.2,127.0.0.3", root=tmp_path, base_port=free_ports())
    flags = ["--learners", "2", "--stop.updates", "100", "--workdir", str(tmp_path / "folder")]
    assert tpu_vm.run(tpu_vm.prepare(machines, flags)) == 0
    assert saved(tmp_path / "folder") >= 100
