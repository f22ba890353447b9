"""Units on several hosts, rendered and run: pods in network namespaces that learn as one."""

from __future__ import annotations

import pathlib
import signal

import numpy as np
import pytest

pytest.importorskip("launchpad")

from boonta.deploy import jobset, roles
from boonta.deploy.resources import Resources, ResourceTable
from boonta.nodes import metrics
from boonta.tests.helpers import namespaces, pods, schemas
from boonta.tests.helpers.launched import ends_with
from boonta.tests.helpers.runs import end, saved

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(namespaces.missing()), reason=namespaces.missing()),
]
HELPERS = pathlib.Path(__file__).parents[1] / "helpers"
TWO = ResourceTable("image", groups={"unit": Resources(machines=2, volume="1Gi")})


def rendered(monkeypatch, folder, program, *flags):
    monkeypatch.setattr(roles, "WORKDIR", str(folder))
    manifest, _ = jobset.render(jobset.prepare(HELPERS / program, list(flags), TWO))
    assert schemas.problems(manifest) == []
    return manifest, folder / manifest["metadata"]["name"]


def updates_of(workdir, before: int) -> list[float]:
    """The numbers of updates in the rows after so many."""
    return [row["updates"] for row in metrics.read(workdir)[before:] if row.get("updates")]


def test_two_units_reduce_together_are_killed_and_resume_and_stay_equal_bit_by_bit(tmp_path, monkeypatch):
    go = tmp_path / "go"
    flags = ("--stop.updates", "300", "--held-until", str(go), "--save-every-s", "1")
    manifest, workdir = rendered(monkeypatch, tmp_path, "unit_program.py", *flags)

    with pods.Pods(manifest, tmp_path) as running:
        assert not running.run(lambda: saved(workdir) > 0)
        running.pod("unit", 1).process.send_signal(signal.SIGKILL)
        assert not running.run(lambda: running.restarts == 1)
        for ended in workdir.rglob("end-*.npy"):  # The host that was left may have had sound params when it gave up.
            ended.unlink()
        resumed_from, before = saved(workdir), len(metrics.read(workdir))
        assert not running.run(lambda: updates_of(workdir, before))
        go.touch()
        assert running.run(lambda: False), running.output()
        assert [pod.process.returncode for pod in running.pods] == [0, 0], running.output()
        assert [pod.starts for pod in running.pods] == [2, 2]
    updates = updates_of(workdir, before)
    assert 0 < resumed_from <= min(updates) < max(updates)
    (name, first), (other, second) = end(workdir), end(workdir / "hosts" / "1")
    assert name == other
    np.testing.assert_array_equal(first, second)
    assert np.any(first != 0)


@pytest.mark.slow  # The default set has it under Slurm.
def test_two_fused_units_are_killed_and_resume_and_end_after_the_same_update(tmp_path, monkeypatch):
    last = tmp_path / "last"
    flags = ("--save-every-s", "1", *ends_with(last, 10**12))
    manifest, workdir = rendered(monkeypatch, tmp_path, "noting_program.py", *flags)
    with pods.Pods(manifest, tmp_path) as running:
        assert not running.run(lambda: saved(workdir) > 0), running.output()
        killed_at = saved(workdir)
        running.pod("unit", 1).process.send_signal(signal.SIGKILL)
        assert not running.run(lambda: running.restarts == 1), running.output()
        before = len(metrics.read(workdir))
        assert not running.run(lambda: updates_of(workdir, before)), running.output()
        last.touch()
        assert running.run(lambda: False), running.output()
        assert [pod.process.returncode for pod in running.pods] == [0, 0], running.output()
        assert [pod.starts for pod in running.pods] == [2, 2]
    first, second = (metrics.read(folder)[-1] for folder in (workdir, workdir / "hosts" / "1"))
    assert 0 < killed_at <= first["began_with"] == second["began_with"] < first["updates"]
    assert first["updates"] == second["updates"] == saved(workdir)
