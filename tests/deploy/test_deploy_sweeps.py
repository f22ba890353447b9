"""A sweep as a JobSet: a pod for each run, which gets that run's command."""

from __future__ import annotations

import pathlib
import subprocess

import kubernetes_validate
import pytest

from boonta.deploy import jobset, roles
from boonta.deploy.resources import Resources, ResourceTable
from boonta.programs.wiring.run import BadInput
from boonta.tests.helpers import pods, schemas
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.manifests import container

pytestmark = pytest.mark.once

TABLE_OF_UNITS = ResourceTable("image", groups={"unit": Resources(volume="1Gi")})
SWEEP = """
program: programs/impala.py
env: catch
flags: {launch: anakin, stop.updates: 20}
runs: [{name: usual}, {name: slow, config.optimiser.learning-rate: 0.001}]
seeds: 2
slots: {number: 3}
populations: false
retries: 2
"""


def test_a_sweep_is_a_set_of_pods_each_with_a_run(tmp_path):
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(SWEEP)
    manifest, policy = jobset.render_sweep(*roles.prepare_sweep(sweep, ["--save-every-s", "60"], TABLE_OF_UNITS))
    assert schemas.problems(manifest) == []
    kubernetes_validate.validate(policy, schemas.VERSION, strict=True)
    (only,) = manifest["spec"]["replicatedJobs"]
    runs = only["template"]["spec"]
    assert (runs["completions"], runs["parallelism"]) == (4, 3)
    assert (runs["backoffLimitPerIndex"], runs["maxFailedIndexes"]) == (2, 4)  # A run that fails stops no other.
    assert runs["podFailurePolicy"]["rules"][0]["action"] == "Ignore"  # A preempted one goes on, uncounted.
    assert manifest["spec"]["failurePolicy"]["maxRestarts"] == 0
    assert started(container(manifest, "unit"), 3, tmp_path) == [
        "programs/impala.py", "catch", "--launch", "anakin", "--stop.updates", "20", "--save-every-s", "60",
        "--config.optimiser.learning-rate", "0.001", "--seed", "1", "--workdir", "/runs/sweep/impala-catch-slow-seed1"
    ]  # fmt: skip
    assert {mount["mountPath"] for mount in container(manifest, "unit")["volumeMounts"]} == {"/tmp", "/runs/sweep"}


def started(only: dict, index: int, folder: pathlib.Path) -> list[str]:
    """What a pod's command gives Python."""
    python = folder / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    environment = {"PATH": f"{folder}:/bin:/usr/bin", roles.INDEX: str(index)}
    command = [pods.expanded(word, environment) for word in only["command"]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE_S)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("changes", "flags", "message"),
    [
        (("launch: anakin, ", ""), [], "is a pod for each of its nodes; a sweep has a pod for each run"),
        (("", ""), ["--workdir", "x"], "--workdir is the pods' own folder"),
    ],
)
def test_a_sweep_that_can_not_be_a_set_is_refused(tmp_path, changes, flags, message):
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(SWEEP.replace(*changes))
    with pytest.raises(BadInput, match=message):
        roles.prepare_sweep(sweep, flags, TABLE_OF_UNITS)
