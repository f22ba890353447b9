"""Programs of one process per host, rendered as JobSets."""

from __future__ import annotations

import pathlib

import kubernetes_validate
import pytest

from boonta.deploy import jobset
from boonta.deploy.resources import Resources, ResourceTable
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.provenance import ROOT
from boonta.tests.helpers import schemas
from boonta.tests.helpers.manifests import container, job, pod

IMPALA = ROOT / "programs" / "impala.py"
LIGHT = pathlib.Path(__file__).parents[1] / "helpers" / "light_program.py"
TABLE = ResourceTable("registry.example.com/boonta:1", groups={"actor": Resources(cpu="3", memory="5Gi")})


def rendered(flags: list[str]) -> tuple[dict, dict]:
    """The manifest of IMPALA with these flags, which is valid and has one job, a unit of one host; and this job."""
    manifest, policy = jobset.render(jobset.prepare(IMPALA, flags, ResourceTable("image")))
    assert schemas.problems(manifest) == []
    kubernetes_validate.validate(policy, schemas.VERSION, strict=True)
    (unit,) = manifest["spec"]["replicatedJobs"]
    assert (unit["name"], unit["template"]["spec"]["completions"]) == ("unit", 1)
    return manifest, unit


def test_a_sebulba_program_is_a_unit_per_host():
    flags = ["catch", "--launch", "sebulba", "--seed", "3"]
    manifest, unit = rendered(flags)
    assert unit["template"]["metadata"]["annotations"] == jobset.EXCLUSIVE
    assert (pod(manifest, "unit")["restartPolicy"], unit["template"]["spec"]["backoffLimit"]) == ("Never", 0)
    folder = "/runs/impala"
    only = container(manifest, "unit")
    assert only["command"] == ["python", "programs/impala.py", *flags, "--workdir", folder]
    assert {mount["name"]: mount["mountPath"] for mount in only["volumeMounts"]}["run"] == folder
    assert manifest["spec"]["successPolicy"]["targetReplicatedJobs"] == ["unit"]
    assert [rule["name"] for rule in manifest["spec"]["failurePolicy"]["rules"]] == ["preempted"]


def test_a_unit_per_host_of_a_slice_meets_the_others_at_the_first():
    slice_4 = Resources(accelerator="x", topology="4x4", volume="1Gi")
    table = ResourceTable("image", groups={"unit": slice_4})
    manifest, _ = jobset.render(jobset.prepare(IMPALA, ["catch", "--launch", "sebulba"], table))
    assert schemas.problems(manifest) == []
    assert job(manifest, "unit")["template"]["spec"]["completions"] == 4
    places = ["--hosts.coordinator", "impala-unit-0-0.impala:20000"]
    only = container(manifest, "unit")
    assert only["command"][-6:] == [*places, "--hosts.number", "4", "--hosts.index", "$(BOONTA_INDEX)"]
    assert only["ports"] == [{"containerPort": 20000}]
    (claim,) = manifest["spec"]["volumeClaimPolicies"][0]["templates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]

    manifest, _ = jobset.render(jobset.prepare(ROOT / "programs" / "population.py", [], table))
    assert job(manifest, "unit")["template"]["spec"]["completions"] == 4
    machines = ResourceTable("image", groups={"learner": Resources(machines=2, volume="1Gi")})
    with pytest.raises(
        BadInput, match="groups.learner: machines is 2, and the number of learners is 1: give --learners 2"
    ):
        jobset.prepare(IMPALA, ["catch"], machines)


def test_an_anakin_program_is_a_unit_of_one_host_or_several():
    flags = ["catch", "--launch", "anakin", "--placement.learning", "8"]
    manifest, _ = rendered(flags)
    only = container(manifest, "unit")
    assert only["command"] == ["python", "programs/impala.py", *flags, "--workdir", "/runs/impala"]
    assert only["resources"]["limits"]["google.com/tpu"] == "8" and "ports" not in only
    assert manifest["spec"]["successPolicy"]["targetReplicatedJobs"] == ["unit"]
    two = ResourceTable("image", groups={"unit": Resources(machines=2, volume="1Gi")})
    manifest, _ = jobset.render(jobset.prepare(IMPALA, flags, two))
    assert container(manifest, "unit")["command"][-4:] == ["--hosts.number", "2", "--hosts.index", "$(BOONTA_INDEX)"]


@pytest.mark.parametrize("program", ["population.py", "meta_gradient.py"])
def test_a_program_that_is_fused_by_default_needs_no_flag_for_it(program):
    manifest, _ = jobset.render(jobset.prepare(ROOT / "programs" / program, [], ResourceTable("image")))
    assert [job["name"] for job in manifest["spec"]["replicatedJobs"]] == ["unit"]


@pytest.mark.parametrize(
    ("program", "flags", "message"),
    [
        ("impala.py", ["atari/Pong", "--launch", "anakin"], "needs an environment in JAX, and Atari is none"),
        ("central_inference.py", ["catch", "--launch", "anakin"], "--launch anakin has no inference"),
        ("central_inference.py", ["catch", "--launch", "sebulba"], "--launch sebulba has no inference"),
        ("impala.py", ["catch", "--launch", "sebulba", "--actors", "2"], "the number of actor nodes is 2"),
    ],
)
def test_what_a_unit_could_not_do_is_refused_before_it_costs_anything(program, flags, message):
    with pytest.raises(ValueError, match=message):
        jobset.prepare(ROOT / "programs" / program, flags, ResourceTable("image"))
