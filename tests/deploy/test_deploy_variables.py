"""Several variable servers: how each way to deploy renders them, and who calls which."""

from __future__ import annotations

import pytest

from boonta.deploy import core, jobset, slurm, tpu_vm
from boonta.deploy.program import build
from boonta.deploy.resources import Resources, ResourceTable
from boonta.programs.wiring.run_folder.provenance import ROOT
from boonta.tests.helpers import schemas
from boonta.tests.helpers.manifests import container, job

IMPALA = ROOT / "programs" / "impala.py"
FLAGS = ["catch", "--actors", "4", "--variable-servers", "2"]


def test_a_jobset_has_a_pod_and_a_port_for_each():
    table = ResourceTable("image", groups={"learner": Resources(volume="1Gi")})
    manifest, _ = jobset.render(jobset.prepare(IMPALA, FLAGS, table))
    assert schemas.problems(manifest) == []
    assert job(manifest, "variables")["template"]["spec"]["completions"] == 2
    assert container(manifest, "variables")["ports"] == [{"containerPort": port} for port in (20001, 20002)]


def test_slurm_and_ssh_start_each(tmp_path):
    flags = [*FLAGS, "--workdir", str(tmp_path)]
    script = slurm.render(slurm.Job(IMPALA, nodes=2), flags)
    assert "'variables 0' 'variables 1'" in script
    commands = tpu_vm.prepare(tpu_vm.Machines(IMPALA, "a,b,c"), flags).commands
    assert {"variables/0", "variables/1"} < set(commands)


@pytest.mark.cluster
def test_callers_are_dealt_to_them_and_the_learner_publishes_to_the_first():
    from boonta.programs.wiring.interpreters import alone

    program = build(IMPALA, FLAGS).program
    hosts = core.addresses_of({task: task.name for task in core.plan(program, 5000)})
    launchable = core.bind(program, hosts, "rpc.pem")
    addresses = ["variables/0:5001", "variables/1:5002"]
    called = {
        name: [address for address in addresses if address in alone.servers_of(launchable, name)]
        for name in launchable.nodes
    }
    assert called["variables/0"] == [] and called["variables/1"] == called["learner"] == addresses[:1]
    assert [called[f"actor/{i}"] for i in range(4)] == [addresses[:1], addresses[1:]] * 2
