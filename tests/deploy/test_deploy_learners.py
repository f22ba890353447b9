"""Several learners, one a host: how each way to deploy renders them, and what it refuses."""

from __future__ import annotations

import pytest

from boonta.deploy import core, jobset, slurm, tpu_vm
from boonta.deploy.program import build
from boonta.deploy.resources import Resources, ResourceTable
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.provenance import ROOT
from boonta.tests.helpers import schemas
from boonta.tests.helpers.manifests import container, job

IMPALA, REANALYZE = ROOT / "programs" / "impala.py", ROOT / "programs" / "reanalyze.py"
NO_TPU = {"accelerator": "", "topology": ""}
ALL = ("--learners", "2", "--replay-servers", "2", "--actors", "4", "--reanalyzers", "2")


def table_of(**learner) -> ResourceTable:
    return ResourceTable("image", groups={"learner": Resources(volume="1Gi", **learner)})


def command_of(manifest: dict, label: str) -> list[str]:
    return container(manifest, label)["command"]


def test_a_jobset_has_a_pod_for_each_learner_and_the_first_one_a_port():
    manifest, _ = jobset.render(jobset.prepare(REANALYZE, ["catch", *ALL], table_of()))
    assert schemas.problems(manifest) == []
    jobs = {each["name"]: each["template"]["spec"] for each in manifest["spec"]["replicatedJobs"]}
    pods = {"monitor": 1, "variables": 1, "replay": 2, "learner": 2, "actor": 4, "reanalyzer": 2, "evaluator": 1}
    assert {label: (spec["completions"], spec["parallelism"]) for label, spec in jobs.items()} == {
        label: (number, number) for label, number in pods.items()
    }
    command = command_of(manifest, "learner")
    assert (
        command[command.index("--index") + 1] == "$(BOONTA_INDEX)" and command[command.index("--learners") + 1] == "2"
    )
    assert jobs["learner"]["backoffLimit"] == 0  # One that fails takes the set along.
    assert container(manifest, "learner")["ports"] == [{"containerPort": 20004}]
    claims = {
        each["metadata"]["name"]: each["spec"] for each in manifest["spec"]["volumeClaimPolicies"][0]["templates"]
    }
    assert claims["checkpoints"]["accessModes"] == ["ReadWriteMany"]
    assert manifest["spec"]["successPolicy"]["targetReplicatedJobs"] == ["learner"]


@pytest.mark.parametrize(
    ("given", "chips"),
    [({"topology": "4x4"}, "4"), ({"topology": "2x4", "chips_per_host": 2}, "2")],
)
def test_learners_share_a_slice_of_as_many_hosts(given, chips):
    table = table_of(accelerator="tpu-x", **given)
    manifest, _ = jobset.render(jobset.prepare(IMPALA, ["catch", "--learners", "4"], table))
    assert schemas.problems(manifest) == []
    assert job(manifest, "learner")["template"]["spec"]["completions"] == 4
    assert container(manifest, "learner")["resources"]["limits"]["google.com/tpu"] == chips
    assert job(manifest, "learner")["template"]["metadata"]["annotations"] == jobset.EXCLUSIVE


@pytest.mark.parametrize(
    ("flags", "table", "message"),
    [
        (
            [],
            table_of(accelerator="x", topology="4x4"),
            "a 4x4 slice has 4 hosts of 4 chips, and the number of learners is 1: give --learners 4, or ask for one",
        ),
        (
            ["--learners", "2"],
            table_of(machines=3),
            "machines is 3, and the number of learners is 2: give --learners 3",
        ),
        (
            ["--learners", "2"],
            table_of(accelerator="x", topology="2x4"),
            "a 2x4 slice has 1 hosts of 8 chips, and 2 learners share one slice: ask for one of 2 hosts",
        ),
        (
            [],
            ResourceTable("image", groups={"actor": Resources(machines=2)}),
            "groups.actor: machines is 2, and Actor works on one: ask for one",
        ),
    ],
)
def test_hosts_that_are_not_one_for_each_are_refused(flags, table, message):
    with pytest.raises(BadInput, match=message):
        jobset.prepare(IMPALA, ["catch", *flags], table)


def test_the_first_learner_has_a_port_that_no_other_node_has():
    tasks = core.plan(build(IMPALA, ["catch", "--learners", "3"]).program, 5000)
    ports = {task.name: task.ports for task in tasks if task.label == "learner"}
    assert ports == {"learner/0": (5003,), "learner/1": (), "learner/2": ()}
    assert len({port for task in tasks for port in task.ports}) == 4


@pytest.mark.cluster
def test_the_other_learners_meet_at_the_first_ones_host():
    from boonta.programs.wiring.interpreters import alone

    program = build(IMPALA, ["catch", "--learners", "2"]).program
    addresses = core.addresses_of({task: task.name for task in core.plan(program, 5000)})
    launchable = core.bind(program, addresses, "rpc.pem", only="learner/1")
    assert "learner/0:5003" in alone.servers_of(launchable, "learner/1")
    assert "learner/0:5003" not in alone.servers_of(launchable, "learner/0")


def test_slurm_deals_learners_to_machines_of_their_own(tmp_path):
    flags = ["catch", "--learners", "2", "--workdir", str(tmp_path)]
    script = slurm.render(slurm.Job(IMPALA, nodes=2, gpus_per_node=1), flags)
    (line,) = (line for line in script.splitlines() if line.startswith("nodes=("))
    names = [task.name for task in core.plan(build(IMPALA, flags).program)]
    first, second = names.index("learner/0"), names.index("learner/1")
    assert second == first + 1 and "'learner 0' 'learner 1'" in line  # They are dealt in turn.
    with pytest.raises(BadInput, match="--nodes is 1; 2 learners with GPUs need a machine each"):
        slurm.render(slurm.Job(IMPALA, nodes=1, gpus_per_node=1), flags)


def hosts_of(machines: tpu_vm.Machines) -> dict[str, str]:
    return {
        name: command[-2] for name, command in tpu_vm.prepare(machines, ["catch", "--learners", "2"]).commands.items()
    }


def test_over_ssh_each_learner_has_a_machine_and_the_others_share_the_rest():
    assert {name: host for name, host in hosts_of(tpu_vm.Machines(IMPALA, "a,b,c")).items() if host != "c"} == {
        "learner/0": "a", "learner/1": "b"
    }  # fmt: skip
    chosen = hosts_of(tpu_vm.Machines(IMPALA, "a,b,c", learner_host="c,a"))
    assert (chosen["learner/0"], chosen["learner/1"], chosen["monitor"]) == ("c", "a", "b")
    for hosts, given, message in (
        ("a", "", "a can't be the hosts of 2 learners: each needs one of its own"),
        ("a,b", "a", "a can't be the hosts of 2 learners"),
        ("a,b", "a,c", "'c' is none of --hosts a,b"),
    ):
        with pytest.raises(BadInput, match=message):
            hosts_of(tpu_vm.Machines(IMPALA, hosts, learner_host=given))
