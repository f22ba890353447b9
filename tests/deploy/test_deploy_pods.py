"""Runs a rendered JobSet: pods are network namespaces with DNS names, and are killed and restarted."""

from __future__ import annotations

import pathlib
import signal

import pytest

pytest.importorskip("launchpad")

from boonta.deploy import jobset, roles
from boonta.deploy.resources import ResourceTable
from boonta.nodes import metrics
from boonta.nodes.rpc import keys
from boonta.tests.helpers import namespaces, pods
from boonta.tests.helpers.launched import LIMIT, ends_with
from boonta.tests.helpers.runs import processes, saved

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(namespaces.missing()), reason=namespaces.missing()),
]
TINY = pathlib.Path(__file__).parents[1] / "helpers" / "tiny_program.py"
LIGHT = pathlib.Path(__file__).parents[1] / "helpers" / "light_program.py"


def rendered(program, monkeypatch, folder, *flags):
    monkeypatch.setattr(roles, "WORKDIR", str(folder))
    monkeypatch.setattr(roles, "KEY", str(folder / "rpc.pem"))
    keys.make_once(folder / "rpc.pem")
    manifest, _ = jobset.render(jobset.prepare(program, list(flags), ResourceTable("image")))
    return manifest, folder / manifest["metadata"]["name"]


def counter(workdir, name):
    rows = metrics.read(workdir) if (workdir / "metrics.jsonl").exists() else []
    return rows[-1].get(name, 0.0) if rows else 0.0


def test_an_actors_pod_that_is_killed_comes_back_and_the_end_is_clean(tmp_path, monkeypatch):
    end = tmp_path / "end"
    manifest, workdir = rendered(LIGHT, monkeypatch, tmp_path, "--actors", "2", *ends_with(end))
    with pods.Pods(manifest, tmp_path) as running:
        assert not running.run(lambda: counter(workdir, "env_steps") > 50)
        victim = running.pod("actor", 1)
        victim.process.kill()
        assert not running.run(lambda: victim.starts == 2 and processes(workdir).get("actor/1") == victim.process.pid)
        end.touch()
        assert running.run(lambda: False), running.output()
        running.end()
        assert (running.restarts, victim.starts, running.pod("learner").starts) == (0, 2, 1), running.output()
        codes = {pod.label: pod.process.returncode for pod in running.pods}
        assert codes["learner"] == codes["monitor"] == 0, running.output()
        assert set(codes.values()) <= {0, 143}, (
            running.output()
        )  # The code is 143 if our SIGTERM came before the program's end.


def test_pods_that_are_added_to_the_actors_join_and_may_be_lost(tmp_path, monkeypatch):
    """As `kubectl` would scale them; the set does not start again, and a pod that is removed leaves."""
    end = tmp_path / "end"
    manifest, workdir = rendered(LIGHT, monkeypatch, tmp_path, *ends_with(end))
    (actors,) = (each for each in manifest["spec"]["replicatedJobs"] if each["name"] == "actor")
    actors["template"]["spec"]["completions"] = actors["template"]["spec"]["parallelism"] = 3
    with pods.Pods(manifest, tmp_path) as running:
        assert not running.run(lambda: counter(workdir, "threads/actor/2") > 0)
        running.pod("actor", 1).process.kill()
        removed = running.pod("actor", 2)
        running.pods.remove(removed)
        removed.process.terminate()
        assert removed.process.wait(60) == 143
        end.touch()
        assert running.run(lambda: False), running.output()
        running.end()
        assert (running.restarts, running.pod("learner").starts) == (0, 1), running.output()
        assert "actor/2 for " in running.output()
    assert counter(workdir, "env_steps") >= LIMIT


def test_servers_whose_machines_are_drained_come_back_alone(tmp_path, monkeypatch):
    end = tmp_path / "end"
    manifest, workdir = rendered(LIGHT, monkeypatch, tmp_path, *ends_with(end))
    with pods.Pods(manifest, tmp_path) as running:
        assert not running.run(lambda: counter(workdir, "updates") > 3)
        for label in ("variables", "monitor"):
            drained, before = running.pod(label), counter(workdir, "updates")
            drained.process.terminate()
            assert drained.process.wait(60) == 143
            assert not running.run(lambda before=before: counter(workdir, "updates") > before + 3), running.output()
        end.touch()
        assert running.run(lambda: False), running.output()
        running.end()
        starts = {pod.label: pod.starts for pod in running.pods}
    assert running.restarts == 0, running.output()
    assert starts == {"variables": 2, "monitor": 2, "learner": 1, "actor": 1}, running.output()


def test_a_run_that_the_monitor_refuses_is_not_tried_for_ever(tmp_path, monkeypatch):
    manifest, workdir = rendered(LIGHT, monkeypatch, tmp_path, "--seed", "2")
    workdir.mkdir()
    (workdir / "config.json").write_text('{"program": "another", "seed": 1, "settings": {}}')
    with pods.Pods(manifest, tmp_path) as running, pytest.raises(pods.JobFailed, match="monitor"):
        running.run(lambda: False)
    assert "holds a run of another, not of light_program" in (tmp_path / "light-program-monitor-0-0.log").read_text()


def test_a_learners_pod_that_is_killed_restarts_the_set(tmp_path, monkeypatch):
    end = tmp_path / "end"
    manifest, workdir = rendered(LIGHT, monkeypatch, tmp_path, *ends_with(end))
    with pods.Pods(manifest, tmp_path) as running:
        assert not running.run(lambda: counter(workdir, "env_steps") > 50)
        running.pod("learner").process.kill()
        assert not running.run(lambda: running.restarts == 1), running.output()
        before = counter(workdir, "env_steps")
        assert not running.run(lambda: counter(workdir, "env_steps") > before), running.output()
        end.touch()
        assert running.run(lambda: False), running.output()
        running.end()
        assert running.restarts == 1 and running.pod("learner").starts == 2, running.output()
    assert counter(workdir, "env_steps") >= LIMIT


@pytest.mark.slow
def test_the_set_resumes_from_the_checkpoint(tmp_path, monkeypatch):
    manifest, workdir = rendered(TINY, monkeypatch, tmp_path, "--stop.updates", "1000", "--save-every-s", "1")

    with pods.Pods(manifest, tmp_path) as running:
        assert not running.run(lambda: saved(workdir) > 0)
        running.pod("learner").process.send_signal(signal.SIGKILL)
        assert not running.run(lambda: running.restarts == 1)
        resumed_from, before = saved(workdir), len(metrics.read(workdir))
        assert running.run(lambda: False), running.output()
        running.end()
        assert running.restarts == 1 and running.pod("learner").starts == 2, running.output()
    updates = [row["updates"] for row in metrics.read(workdir)[before:] if row.get("updates")]
    assert 0 < resumed_from < 1000 <= updates[-1]
    assert min(updates) >= resumed_from


@pytest.mark.slow
def test_servers_pods_that_are_killed_come_back_alone(tmp_path, monkeypatch):
    manifest, workdir = rendered(TINY, monkeypatch, tmp_path, "--stop.updates", "600", "--save-every-s", "2")
    with pods.Pods(manifest, tmp_path) as running:
        assert not running.run(lambda: saved(workdir) > 0)
        for label in ("variables", "replay"):
            before = counter(workdir, "updates")
            running.pod(label).process.kill()
            assert not running.run(lambda before=before: counter(workdir, "updates") > before + 50), running.output()
        assert running.run(lambda: False), running.output()
        running.end()
        starts = {pod.label: pod.starts for pod in running.pods}
    assert running.restarts == 0 and starts.pop("variables") == starts.pop("replay") == 2, running.output()
    assert set(starts.values()) == {1}, running.output()
