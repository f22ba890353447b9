"""Rendered JobSets against the real schemas, and against what a run needs beyond them."""

from __future__ import annotations

import copy
import json
import pathlib

import kubernetes_validate
import pytest
import yaml

from boonta.deploy import core, jobset, resources, roles, slurm, tpu_vm
from boonta.deploy.resources import Resources, ResourceTable
from boonta.programs.wiring.interpreters.local import ON_CPU, ROLE_ENVIRONMENT
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.provenance import ROOT
from boonta.tests.helpers import schemas
from boonta.tests.helpers.archives import write_by_chance
from boonta.tests.helpers.manifests import container, job, pod

IMPALA = ROOT / "programs" / "impala.py"
SWAP = "tests/helpers/swap_program.py"
TABLE = ResourceTable("registry.example.com/boonta:1", groups={"actor": Resources(cpu="3", memory="5Gi")})


@pytest.fixture(scope="module")
def catch():
    return jobset.render(jobset.prepare(IMPALA, ["catch", "--actors", "4", "--stop.updates", "10"], TABLE))


@pytest.fixture
def manifest(catch):
    return copy.deepcopy(catch[0])


def test_the_schemas_and_webhooks_take_it(catch):
    manifest, policy = catch
    assert schemas.problems(manifest) == []
    kubernetes_validate.validate(policy, schemas.VERSION, strict=True)
    for claims in manifest["spec"]["volumeClaimPolicies"]:
        for claim in claims["templates"]:
            whole = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim}
            kubernetes_validate.validate(whole, schemas.VERSION, strict=True)


@pytest.mark.once
@pytest.mark.parametrize("program", sorted((ROOT / "programs").glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_every_program_can_be_deployed(program, tmp_path):
    flags = []
    if program.stem == "unplugged":
        write_by_chance(tmp_path / "data")
        flags = ["--data", str(tmp_path / "data")]
    manifest, _ = jobset.render(jobset.prepare(program, flags, ResourceTable("image")))
    assert schemas.problems(manifest) == []
    assert "#SBATCH" in slurm.render(slurm.Job(program), [*flags, "--workdir", "/x"])
    assert tpu_vm.prepare(tpu_vm.Machines(program, "a"), flags).commands


MUTATIONS = {
    "replicatedJob for replicatedJobs": lambda m: m["spec"].update(replicatedJob=m["spec"].pop("replicatedJobs")),
    "an action that is none": lambda m: m["spec"]["failurePolicy"]["rules"][0].update(action="RestartAll"),
    "parallelism as text": lambda m: job(m, "learner")["template"]["spec"].update(parallelism="4"),
    "nodeSelectors": lambda m: pod(m, "learner").update(nodeSelectors=pod(m, "learner").pop("nodeSelector")),
    "valu of a variable": lambda m: container(m, "learner")["env"][0].update(valu="x"),
    "a container without a name": lambda m: container(m, "learner").pop("name"),
    "a number of chips": lambda m: container(m, "learner")["resources"]["limits"].update({"google.com/tpu": 8}),
    "indexed in lower case": lambda m: job(m, "learner")["template"]["spec"].update(completionMode="indexed"),
    "podFailurePolicy with OnFailure": lambda m: pod(m, "learner").update(restartPolicy="OnFailure"),
    "success of no job": lambda m: m["spec"]["successPolicy"].update(targetReplicatedJobs=["nope"]),
    "a claim without a mount": lambda m: m["spec"]["volumeClaimPolicies"][0]["templates"][0]["metadata"].update(
        name="other"
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_what_they_would_not_take_is_caught(manifest, mutation):
    MUTATIONS[mutation](manifest)
    assert schemas.problems(manifest)


def test_a_replicated_job_per_group_and_an_index_per_node(manifest):
    assert manifest["apiVersion"] == "jobset.x-k8s.io/v1alpha2"
    sizes = {
        job["name"]: (job["replicas"], job["template"]["spec"]["completions"], job["template"]["spec"]["parallelism"])
        for job in manifest["spec"]["replicatedJobs"]
    }
    one = (1, 1, 1)
    assert sizes == {
        "monitor": one, "variables": one, "replay": one, "learner": one, "actor": (1, 4, 4), "evaluator": one
    }  # fmt: skip
    assert all(job["template"]["spec"]["completionMode"] == "Indexed" for job in manifest["spec"]["replicatedJobs"])


def test_each_pod_runs_its_own_node_of_the_same_program_under_stable_names(manifest):
    for replicated in manifest["spec"]["replicatedJobs"]:
        label, only = replicated["name"], container(manifest, replicated["name"])
        cut = only["command"].index("--")
        assert only["command"][:4] == ["python", "-m", "boonta.deploy.node", "programs/impala.py"]
        assert only["command"][4:cut] == [
            "--label", label, "--index", "$(BOONTA_INDEX)", "--hosts", "impala-{label}-0-{index}.impala",
            "--key", "/key/rpc.pem", "--starts-again"
        ]  # fmt: skip
        assert only["command"][cut + 1 :] == [
            "catch", "--actors", "4", "--stop.updates", "10", "--workdir", "/runs/impala"
        ]  # fmt: skip
        assert only["image"] == TABLE.image
    network = manifest["spec"]["network"]
    assert network == {"enableDNSHostnames": True, "subdomain": "impala", "publishNotReadyAddresses": True}


def test_a_pod_has_its_groups_environment_from_the_start(manifest):
    for label in ("actor", "learner"):
        variables = {variable["name"]: variable.get("value") for variable in container(manifest, label)["env"]}
        expected = ROLE_ENVIRONMENT.get(label, ON_CPU)
        assert expected.items() <= variables.items()
        assert json.loads(variables[core.ENTERED]) == expected
    assert "JAX_PLATFORMS" not in {variable["name"] for variable in container(manifest, "learner")["env"]}
    variables = {variable["name"]: variable.get("value") for variable in container(manifest, "learner")["env"]}
    assert variables["JAX_COMPILATION_CACHE_DIR"] == "/runs/impala/checkpoints/compiled"  # It is on the volume.
    (index,) = (variable for variable in container(manifest, "actor")["env"] if variable["name"] == roles.INDEX)
    assert "job-completion-index" in index["valueFrom"]["fieldRef"]["fieldPath"]


@pytest.mark.parametrize("label", ["reanalyzer", "actor", "evaluator"])
@pytest.mark.parametrize(("gpus", "platforms"), [(0, "cpu"), (1, None)])
def test_a_pod_looks_for_an_accelerator_only_where_it_has_one(label, gpus, platforms):
    table = ResourceTable(TABLE.image, groups={label: Resources(gpus=gpus)})
    manifest, _ = jobset.render(jobset.prepare(ROOT / "programs" / "reanalyze.py", ["catch"], table))
    variables = {each["name"]: each.get("value") for each in container(manifest, label)["env"]}
    assert variables.get("JAX_PLATFORMS") == platforms
    # Otherwise the node would set them anew.
    assert json.loads(variables[core.ENTERED]) == ROLE_ENVIRONMENT.get(label, ON_CPU)


@pytest.mark.parametrize(
    ("program", "label", "flags", "message"),
    [
        ("programs/impala.py", "replay", "catch", "groups.replay: gpus is 1, and Replay computes nothing on a device"),
        ("programs/central_inference.py", "actor", "catch", "and Actor has an inference node act for it: leave it out"),
        (SWAP, "reanalyzer", "--agent muzero --acting central --reanalyzers 1", "Reanalyzer has an inference node act"),
        ("programs/impala.py", "evaluator", "catch --process-env evaluator:JAX_PLATFORMS=cpu", "=cpu leaves it idle"),
        ("programs/impala.py", "evaluator", "catch --process-env evaluator:JAX_PLATFORMS=cpu,cuda", "=cpu,cuda leaves"),
    ],
)
def test_an_accelerator_that_would_idle_is_refused(program, label, flags, message):
    table = ResourceTable(TABLE.image, groups={label: Resources(gpus=1, volume="1Gi")})
    with pytest.raises(BadInput, match=message):
        jobset.prepare(ROOT / program, flags.split(), table)


def test_the_last_platform_that_the_user_names_counts():
    words = [f"evaluator:JAX_PLATFORMS={platform}" for platform in ("cpu", "cuda")]
    table = ResourceTable(TABLE.image, groups={"evaluator": Resources(gpus=1)})
    flags = ["catch", "--process-env", *words]
    manifest, _ = jobset.render(jobset.prepare(ROOT / "programs" / "impala.py", flags, table))
    variables = {each["name"]: each.get("value") for each in container(manifest, "evaluator")["env"]}
    assert variables["JAX_PLATFORMS"] == "cuda"


def test_the_learner_decides_how_it_ends(manifest):
    assert manifest["spec"]["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["learner"]}
    for replicated in manifest["spec"]["replicatedJobs"]:
        learns, spec = replicated["name"] == "learner", replicated["template"]["spec"]
        has_rules = replicated["name"] in ("learner", "monitor")
        assert pod(manifest, replicated["name"])["restartPolicy"] == ("Never" if has_rules else "OnFailure")
        assert spec["backoffLimit"] == (0 if learns else roles.MANY)
        assert ("podFailurePolicy" in spec) == has_rules
    assert job(manifest, "learner")["template"]["spec"]["podFailurePolicy"]["rules"] == [
        {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [143]}},
    ]
    rules = manifest["spec"]["failurePolicy"]["rules"]
    assert [(rule["action"], rule["onJobFailureReasons"], rule["targetReplicatedJobs"]) for rule in rules] == [
        ("RestartJobSetAndIgnoreMaxRestarts", ["PodFailurePolicy"], ["learner"]),
        ("FailJobSet", ["PodFailurePolicy"], ["monitor"]),
    ]
    # A monitor that is preempted comes back; one that refuses the run, by code 2, would do so each time.
    assert job(manifest, "monitor")["template"]["spec"]["podFailurePolicy"]["rules"] == [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2]}},
    ]


def test_a_pod_that_saves_has_the_time_for_it_and_its_successor_waits_for_it(manifest):
    """A pod whose machine is drained may save for minutes."""
    graces = {each["name"]: pod(manifest, each["name"])["terminationGracePeriodSeconds"] for each in jobs_of(manifest)}
    saving = dict.fromkeys(("monitor", "replay", "learner"), core.END_S)
    assert graces == {**saving, "variables": jobset.GRACE_S, "actor": jobset.GRACE_S, "evaluator": jobset.GRACE_S}
    waits = [each["name"] for each in jobs_of(manifest) if "podReplacementPolicy" in each["template"]["spec"]]
    assert sorted(waits) == sorted(
        saving
    )  # The successor of another need not wait for a machine that can't be reached.


def jobs_of(manifest: dict) -> list[dict]:
    return manifest["spec"]["replicatedJobs"]


def test_pods_of_actors_may_be_lost_and_added_in_any_number(manifest):
    spec = job(manifest, "actor")["template"]["spec"]
    assert (spec["backoffLimit"], spec["completions"], spec["parallelism"]) == (roles.MANY, 4, 4)
    spec["completions"] = spec["parallelism"] = 9  # Kubernetes lets them be changed where they are the same.
    assert schemas.problems(manifest) == []


def test_only_the_learner_has_a_topology_of_its_own(manifest):
    assert "annotations" not in manifest["metadata"]
    with_it = [job["name"] for job in manifest["spec"]["replicatedJobs"] if "metadata" in job["template"]]
    assert with_it == ["learner"]
    assert job(manifest, "learner")["template"]["metadata"]["annotations"] == jobset.EXCLUSIVE
    selector = pod(manifest, "learner")["nodeSelector"]
    assert selector["cloud.google.com/gke-tpu-topology"] == "2x4"
    assert container(manifest, "learner")["resources"]["limits"]["google.com/tpu"] == "8"
    assert "nodeSelector" not in pod(manifest, "actor")


def test_pods_have_no_more_rights_than_they_need(manifest):
    for replicated in manifest["spec"]["replicatedJobs"]:
        spec, only = pod(manifest, replicated["name"]), container(manifest, replicated["name"])
        assert spec["automountServiceAccountToken"] is False and spec["hostNetwork"] is False
        assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] == jobset.USER
        assert only["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}
        }  # fmt: skip
        assert only["resources"]["requests"] == only["resources"]["limits"]


def test_only_the_programs_own_pods_may_call_each_other(catch):
    manifest, policy = catch
    ours = {"podSelector": {"matchLabels": {"boonta/run": "impala"}}}
    assert policy["spec"] == {**ours, "policyTypes": ["Ingress"], "ingress": [{"from": [ours]}]}
    for replicated in manifest["spec"]["replicatedJobs"]:
        assert replicated["template"]["spec"]["template"]["metadata"]["labels"] == {"boonta/run": "impala"}


def test_each_pod_has_the_runs_key_from_a_secret(manifest):
    for replicated in manifest["spec"]["replicatedJobs"]:
        spec, only = pod(manifest, replicated["name"]), container(manifest, replicated["name"])
        (volume,) = (volume for volume in spec["volumes"] if volume["name"] == "key")
        assert volume["secret"] == {"secretName": "impala-key", "defaultMode": 0o440}
        assert {"name": "key", "mountPath": "/key", "readOnly": True} in only["volumeMounts"]
        assert only["command"][only["command"].index("--key") + 1] == "/key/rpc.pem"


def test_what_is_saved_is_on_retained_volumes_at_the_runs_paths(manifest):
    (claims,) = manifest["spec"]["volumeClaimPolicies"]
    assert claims["retentionPolicy"] == {"whenDeleted": "Retain"}
    assert [claim["metadata"]["name"] for claim in claims["templates"]] == ["run", "replay", "checkpoints"]
    mounts = {
        label: {
            mount["name"]: mount["mountPath"]
            for mount in container(manifest, label)["volumeMounts"]
            if mount["name"] != "key"
        }
        for label in ("monitor", "learner", "replay", "actor")
    }
    assert mounts == {
        "monitor": {"tmp": "/tmp", "run": "/runs/impala"},
        "learner": {"tmp": "/tmp", "checkpoints": "/runs/impala/checkpoints"},
        "replay": {"tmp": "/tmp", "replay": "/runs/impala/replay"},
        "actor": {"tmp": "/tmp"},
    }


def test_the_table_says_what_each_group_gets(tmp_path):
    table = tmp_path / "table.yaml"
    table.write_text(
        "image: registry.example.com/boonta:2\nname: mine\nnamespace: lab\nqueue: tpus\nstorage_class: fast\n"
        "groups:\n  learner: {cpu: 9, gpus: 2, accelerator: '', topology: ''}\n"
        "  actor: {memory: 7Gi, node_selector: {pool: spot}}\n  replay: {volume: 1Ti}\n"
    )
    manifest, policy = jobset.render(jobset.prepare(IMPALA, ["catch"], resources.read(table)))
    assert schemas.problems(manifest) == []
    assert manifest["metadata"] == {
        "name": "mine", "namespace": "lab", "labels": {"kueue.x-k8s.io/queue-name": "tpus"}
    }  # fmt: skip
    assert policy["metadata"] == {"name": "mine", "namespace": "lab"}
    limits = container(manifest, "learner")["resources"]["limits"]
    assert limits == {"cpu": "9", "memory": "64Gi", "nvidia.com/gpu": "2"}
    assert "metadata" not in job(manifest, "learner")["template"]
    assert container(manifest, "actor")["resources"]["limits"]["memory"] == "7Gi"
    assert pod(manifest, "actor")["nodeSelector"] == {"pool": "spot"}
    claims = {c["metadata"]["name"]: c["spec"] for c in manifest["spec"]["volumeClaimPolicies"][0]["templates"]}
    assert claims["replay"]["resources"] == {"requests": {"storage": "1Ti"}}
    assert all(claim["storageClassName"] == "fast" for claim in claims.values())


def test_the_command_writes_yaml_or_says_what_is_wrong(tmp_path, capsys):
    table = tmp_path / "table.yaml"
    table.write_text("image: registry.example.com/boonta:1\n")
    assert jobset.main([str(IMPALA), "--resources", str(table), "--", "catch", "--config.discount", "0.5"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("# Made by `python -m boonta.deploy.jobset ")
    jobs, policy = yaml.safe_load_all(printed)
    assert (jobs["kind"], policy["kind"]) == ("JobSet", "NetworkPolicy") and schemas.problems(jobs) == []
    assert jobset.main(["programs/none.py", "--resources", str(table)]) == 2
    assert f"program file {pathlib.Path('programs/none.py').absolute()} doesn't exist" in capsys.readouterr().err
