"""Rendering a program imports none of the packages that it runs on: Launchpad, courier, Reverb and TensorFlow."""

from __future__ import annotations

import subprocess
import sys

import pytest

from boonta.programs.wiring.run_folder.provenance import ROOT

# Renders for every platform, with the nodes on hosts of their own and in units, and prints the modules imported.
RENDER = """
import pathlib, sys

UNWANTED = ("launchpad", "courier", "reverb", "tensorflow")
if sys.argv[1] == "missing":
    sys.modules.update(dict.fromkeys(UNWANTED))  # An import of these now fails.
from boonta.deploy import jobset, slurm, tpu_vm
from boonta.deploy.resources import ResourceTable

program, table = pathlib.Path("programs/muzero.py"), ResourceTable("image")
jobs = []
for flags in (["catch"], ["catch", "--launch", "sebulba"], ["catch", "--launch", "anakin"]):
    manifest, _ = jobset.render(jobset.prepare(program, flags, table))
    jobs.append([job["name"] for job in manifest["spec"]["replicatedJobs"]])
    assert "#SBATCH" in slurm.render(slurm.Job(program), [*flags, "--workdir", "/x"])
    assert tpu_vm.prepare(tpu_vm.Machines(program, "a"), flags).commands
assert jobs == [["monitor", "variables", "replay", "learner", "actor", "evaluator"], ["unit"], ["unit"]], jobs
print("loaded", [name for name in UNWANTED if sys.modules.get(name)])
"""


@pytest.mark.parametrize(
    "launchpad", [pytest.param("there", marks=pytest.mark.cluster), pytest.param("missing", marks=pytest.mark.once)]
)
def test_a_program_is_rendered_without_launchpad_and_where_it_is_missing(launchpad):
    command = [sys.executable, "-c", RENDER, launchpad]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "loaded []\n"), done.stderr
