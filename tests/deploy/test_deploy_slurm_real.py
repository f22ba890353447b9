"""The Slurm script under a real Slurm of two machines: it runs, is requeued, resumes and ends."""

from __future__ import annotations

import os
import pathlib
import signal
import time

import numpy as np
import pytest

pytest.importorskip("launchpad")

from boonta.deploy import slurm
from boonta.nodes import metrics
from boonta.tests.helpers.launched import LIMIT, ends_with
from boonta.tests.helpers.runs import processes, saved
from boonta.tests.helpers.slurm_cluster import Slurm, missing

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slurm,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]
ROOT = pathlib.Path(__file__).parents[2]
UNIT = ROOT / "tests" / "helpers" / "unit_program.py"
FUSED = ROOT / "tests" / "helpers" / "noting_program.py"
LIGHT = ROOT / "tests" / "helpers" / "light_program.py"
LIMIT_S = 240.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slurm")
    with Slurm(folder) as running:
        yield running


def submit(cluster: Slurm, folder: pathlib.Path, program: pathlib.Path, *flags: str, **job) -> str:
    script = folder / "job.sbatch"
    script.write_text(slurm.render(slurm.Job(program, nodes=2, **job), [*flags, "--workdir", str(folder / "run")]))
    return cluster.submit(script)


def await_until(cluster: Slurm, what: str, there) -> None:
    end = time.monotonic() + LIMIT_S
    while not there():
        assert time.monotonic() < end, f"{what} did not come in {LIMIT_S:.0f} s: {cluster.logs()}"
        time.sleep(0.3)


def test_nodes_of_a_program_run_on_both_machines_until_its_work_is_done(cluster, tmp_path):
    number = submit(cluster, tmp_path, LIGHT, "--actors", "2", "--stop.updates", "60", tasks_per_node=3)
    await_until(cluster, "the end", lambda: cluster.job(number).get("JobState") in ("COMPLETED", "FAILED"))
    assert cluster.job(number)["JobState"] == "COMPLETED", cluster.logs()
    assert metrics.read(tmp_path / "run")[-1]["updates"] >= 60


def test_an_actor_that_dies_alone_starts_again_and_the_turn_goes_on(cluster, tmp_path):
    end = tmp_path / "end"
    number = submit(cluster, tmp_path, LIGHT, "--actors", "2", *ends_with(end), tasks_per_node=3)
    await_until(cluster, "both actors", lambda: {"actor/0", "actor/1"} <= processes(tmp_path / "run").keys())
    first = processes(tmp_path / "run")["actor/0"]
    os.kill(first, signal.SIGKILL)
    await_until(cluster, "its next life", lambda: processes(tmp_path / "run")["actor/0"] != first)
    assert "actor 0 died with code 137, and starts again" in log_of(cluster, number)
    end.touch()
    await_until(cluster, "the end", lambda: cluster.job(number).get("JobState") in ("COMPLETED", "FAILED"))
    job = cluster.job(number)
    assert (job["JobState"], job["Restarts"]) == ("COMPLETED", "0"), cluster.logs()
    assert metrics.read(tmp_path / "run")[-1]["env_steps"] >= LIMIT


def test_an_actor_is_told_to_leave_with_its_job_which_goes_on_from_there(cluster, tmp_path):
    number = submit(cluster, tmp_path, LIGHT, "--actors", "2", tasks_per_node=3)
    await_until(cluster, "both actors", lambda: {"actor/0", "actor/1"} <= processes(tmp_path / "run").keys())
    cluster.do("scancel", "--signal=USR1", "--batch", number)  # As Slurm does near the time limit.
    await_until(cluster, "another turn", lambda: cluster.job(number).get("Restarts") == "1")
    log = log_of(cluster, number)
    assert "actor/0: ended by signal 15" in log and "actor/1: ended by signal 15" in log and "died with" not in log
    assert "turn ended with code 143: time is up" in log
    cluster.do("scancel", number)
    await_until(cluster, "the end", lambda: cluster.job(number).get("JobState") == "CANCELLED")


def test_a_run_that_the_monitor_refuses_ends_for_all_and_is_not_requeued(cluster, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text('{"program": "another", "seed": 1, "settings": {}}')
    number = submit(cluster, tmp_path, LIGHT, "--actors", "2", "--seed", "2", tasks_per_node=3)
    await_until(cluster, "the end", lambda: cluster.job(number).get("JobState") in ("COMPLETED", "FAILED"))
    job = cluster.job(number)
    assert (job["JobState"], job["ExitCode"], job["Restarts"]) == ("FAILED", "2:0", "0"), cluster.logs()
    assert "holds a run of another, not of light_program" in log_of(cluster, number)


def log_of(cluster: Slurm, number: str) -> str:
    """What a job of the light program has printed."""
    return (cluster.folder / f"light_program-{number}.log").read_text()


def test_a_sweep_is_an_array_of_its_runs(cluster, tmp_path):
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(f"program: {LIGHT}\nseeds: 2\nflags: {{stop.updates: 40}}\n")
    number = submit(cluster, tmp_path, sweep, tasks_per_node=3)
    logs = [tmp_path / "run" / f"light_program-seed{seed}" for seed in (0, 1)]
    await_until(cluster, "both ends", lambda: not cluster.do("squeue", "-h", "-j", number, "-t", "all", "-O", "State")
                or all((folder / metrics.FILE).exists() for folder in logs))  # fmt: skip
    await_until(cluster, "the end", lambda: not cluster.do("squeue", "-h", "-j", number, "-t", "PD,R,CG"))
    assert all(metrics.read(folder)[-1]["updates"] >= 40 for folder in logs), cluster.logs()


def test_fused_units_that_are_requeued_go_on_and_end_together(cluster, tmp_path):
    end, run = tmp_path / "end", tmp_path / "run"
    number = submit(cluster, tmp_path, FUSED, "--save-every-s", "1", *ends_with(end, 10**12), tasks_per_node=1)
    await_until(cluster, "a checkpoint", lambda: saved(run) > 0)
    requeued_at = saved(run)  # It saves once more as it is told to end.
    assert cluster.do("scontrol", "requeue", number) == ""
    await_until(cluster, "another turn", lambda: cluster.job(number).get("Restarts") == "1")
    await_until(cluster, "its work", lambda: any(row.get("began_with") for row in rows_of(run)))
    end.touch()
    await_until(cluster, "the end", lambda: cluster.job(number).get("JobState") in ("COMPLETED", "FAILED"))
    assert cluster.job(number)["JobState"] == "COMPLETED", cluster.logs()
    first, second = (rows_of(folder)[-1] for folder in (run, run / "hosts" / "1"))
    assert 0 < requeued_at <= first["began_with"] == second["began_with"] < first["updates"]
    assert first["updates"] == second["updates"] == saved(run)


def rows_of(folder: pathlib.Path) -> list[dict[str, float]]:
    return metrics.read(folder) if (folder / metrics.FILE).exists() else []


@pytest.mark.slow
def test_units_that_are_requeued_resume_and_end_with_the_same_params(cluster, tmp_path):
    go = tmp_path / "go"
    flags = ("--stop.updates", "300", "--held-until", str(go), "--save-every-s", "1")
    number = submit(cluster, tmp_path, UNIT, *flags, tasks_per_node=1)
    written = tmp_path / "run" / metrics.FILE
    await_until(cluster, "a checkpoint and metrics", lambda: saved(tmp_path / "run") > 0 and written.exists())
    assert cluster.do("scontrol", "requeue", number) == ""
    await_until(cluster, "another turn", lambda: cluster.job(number).get("Restarts") == "1")
    resumed_from, before = saved(tmp_path / "run"), len(metrics.read(tmp_path / "run"))
    go.touch()
    await_until(cluster, "the end", lambda: cluster.job(number).get("JobState") in ("COMPLETED", "FAILED"))
    assert cluster.job(number)["JobState"] == "COMPLETED", cluster.logs()
    rows = [row for row in metrics.read(tmp_path / "run")[before:] if row.get("updates")]
    assert 0 < resumed_from <= rows[-1]["updates"]
    ends = [last_end(folder) for folder in (tmp_path / "run", tmp_path / "run" / "hosts" / "1")]
    assert ends[0].name == ends[1].name
    np.testing.assert_array_equal(*map(np.load, ends))


def last_end(folder: pathlib.Path) -> pathlib.Path:
    """The params of a host at the end of its last turn."""
    return max(folder.glob("end-*.npy"), key=lambda path: int(path.stem.removeprefix("end-")))
