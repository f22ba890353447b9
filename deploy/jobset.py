"""Renders a program as a Kubernetes JobSet, for TPU slices on GKE and any other cluster that runs JobSet.

    ./run python -m boonta.deploy.jobset programs/muzero.py --resources table.yaml -- atari/Pong | kubectl apply -f -

A pod per node of the program, in a replicated job per group; with `--launch sebulba` or `anakin`, a pod per host. What
makes the program end or start again, where "learner" stands for the unit, too:

- the learner's job succeeds, with a pod for each of several learners: so does the set, and all other pods are ended;
- a learner's pod fails, or ends because another node has failed: the set starts again, `max_restarts` times;
- a learner's pod is preempted or evicted: the set starts again, however often; of several units, others end with it as
  after a failure, so that this usually counts;
- the monitor's pod refuses to start, by code 2, such as a folder with another run: the set fails;
- another pod fails or is preempted, the monitor's, too: it alone starts again. The program goes on without those of
  `deploy.core.DISPENSABLE` roles, however long they are away.

A sweep's file in the place of the program's becomes a set with one job: a pod for each run, `slots.number` at once. A
run that fails is started again `retries` times, and doesn't stop the others; a preempted one goes on.
"""

from __future__ import annotations

import dataclasses
import pathlib
import signal
import sys
from typing import Any

import tyro
import yaml

from boonta.deploy import core
from boonta.deploy.program import made_by
from boonta.deploy.resources import ResourceTable, read
from boonta.deploy.roles import INDEX, KEY, Deployment, Role, prepare, prepare_sweep
from boonta.deploy.sweeps import Planned, is_sweep
from boonta.programs.wiring.command_line import faults
from boonta.programs.wiring.command_line.arguments import split_flags
from boonta.programs.wiring.run import BadInput

Manifest = dict[str, Any]

COMMAND = "boonta.deploy.jobset"
RUN_LABEL = "boonta/run"
USER = 1000  # The user id in the image.
MONITOR = "monitor"
GRACE_S = 120  # Time from SIGTERM to SIGKILL; pods that save have `core.END_S`. A preempted machine gives less.
EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}


def render(deployment: Deployment) -> list[Manifest]:
    """The JobSet and its network policy."""
    return [_jobset(deployment), _network_policy(deployment)]


def _jobset(deployment: Deployment) -> Manifest:
    table, name, roles = deployment.table, deployment.name, deployment.roles
    metadata: Manifest = {"name": name, "namespace": table.namespace}
    if table.queue:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": table.queue}
    deciding = [role.label for role in roles if role.decides]
    # The first failure rule that matches decides; where none does, the set starts again and it counts.
    preempted = {
        "name": "preempted",
        "action": "RestartJobSetAndIgnoreMaxRestarts",
        "onJobFailureReasons": ["PodFailurePolicy"],
        "targetReplicatedJobs": deciding,
    }
    # A run that the monitor refuses must not hold a slice.
    refused = {"name": "refused", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
    refusals = [{**refused, "targetReplicatedJobs": [MONITOR]}] if any(role.label == MONITOR for role in roles) else []
    claims = [_claim(table, role) for role in roles if role.volume[0]]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {
            # Pods find each other before they are ready: each waits for the servers that it calls.
            "network": {"enableDNSHostnames": True, "subdomain": name, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": deciding},
            "failurePolicy": {"maxRestarts": table.max_restarts, "rules": [preempted, *refusals]},
            "volumeClaimPolicies": [{"templates": claims, "retentionPolicy": {"whenDeleted": "Retain"}}],
            "replicatedJobs": [_replicated_job(deployment, role) for role in roles],
        },
    }


def _pod_failures(role: Role) -> list[Manifest]:
    """The rules for a pod that fails, of which the first that matches counts; where none does, it counts as a retry."""
    disrupted: Manifest = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    if role.decides:
        # Whoever was asked to end: this learner, or another one with which it ends.
        asked: Manifest = {"onExitCodes": {"operator": "In", "values": [128 + signal.SIGTERM]}}
        return [{"action": "FailJob", **disrupted}, {"action": "FailJob", **asked}]
    if role.label == MONITOR:
        bad_input: Manifest = {"onExitCodes": {"operator": "In", "values": [2]}}
        return [{"action": "Ignore", **disrupted}, {"action": "FailJob", **bad_input}]
    return []


def _replicated_job(deployment: Deployment, role: Role) -> Manifest:
    job: Manifest = {
        "completionMode": "Indexed",
        "completions": role.pods,
        "parallelism": role.pods,
        "backoffLimit": role.retries,
        "template": {"metadata": {"labels": {RUN_LABEL: deployment.name}}, "spec": _pod(deployment.table, role)},
    }
    if role.volume[0]:
        job["podReplacementPolicy"] = "Failed"  # A pod that ends may still be saving what its successor is to find.
    if rules := _pod_failures(role):
        job["podFailurePolicy"] = {"rules": rules}
    template: Manifest = {"spec": job}
    if role.decides and role.resources.accelerator:
        template["metadata"] = {"annotations": EXCLUSIVE}  # Only this job has its machines to itself.
    return {"name": role.label, "replicas": 1, "template": template}


def _pod(table: ResourceTable, role: Role) -> Manifest:
    selector = dict(role.resources.node_selector)
    if role.resources.accelerator:
        selector["cloud.google.com/gke-tpu-accelerator"] = role.resources.accelerator
        selector["cloud.google.com/gke-tpu-topology"] = role.resources.topology
    pod: Manifest = {
        "restartPolicy": "Never" if _pod_failures(role) else "OnFailure",  # Only then may there be rules.
        "terminationGracePeriodSeconds": int(core.END_S) if role.volume[0] else GRACE_S,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostNetwork": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,  # It makes the volumes writable.
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(table, role)],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    if role.secret:
        pod["volumes"].append({"name": "key", "secret": {"secretName": role.secret, "defaultMode": 0o440}})
    return {**pod, "nodeSelector": selector} if selector else pod


def _container(table: ResourceTable, role: Role) -> Manifest:
    resources, (volume, path) = role.resources, role.volume
    variables = {**role.environment, "PYTHONUNBUFFERED": "1", "HOME": "/tmp"}
    annotation = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    amounts = {"cpu": resources.cpu, "memory": resources.memory}
    if resources.accelerator:
        amounts["google.com/tpu"] = str(resources.chips_on_a_host)
    if resources.gpus:
        amounts["nvidia.com/gpu"] = str(resources.gpus)
    container: Manifest = {
        "name": "node",
        "image": table.image,
        "command": list(role.command),
        "env": [
            {"name": INDEX, "valueFrom": {"fieldRef": {"fieldPath": annotation}}},
            *({"name": name, "value": value} for name, value in variables.items()),
        ],
        "resources": {"requests": amounts, "limits": dict(amounts)},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    if volume:
        container["volumeMounts"].append({"name": volume, "mountPath": path})
    if role.secret:
        folder = str(pathlib.PurePosixPath(KEY).parent)
        container["volumeMounts"].append({"name": "key", "mountPath": folder, "readOnly": True})
    return {**container, "ports": [{"containerPort": port} for port in role.ports]} if role.ports else container


def _claim(table: ResourceTable, role: Role) -> Manifest:
    """The volume that a role's pods share; the JobSet controller mounts it."""
    spec: Manifest = {
        "accessModes": ["ReadWriteMany" if role.pods > 1 else "ReadWriteOnce"],
        "resources": {"requests": {"storage": role.resources.volume}},
    }
    if table.storage_class:
        spec["storageClassName"] = table.storage_class
    return {"metadata": {"name": role.volume[0]}, "spec": spec}


def render_sweep(deployment: Deployment, sweep: Planned) -> list[Manifest]:
    """The JobSet of a sweep, from the deployment of one pod for each of its jobs."""
    (role,) = deployment.roles
    manifest = _jobset(deployment)
    spec = manifest["spec"]
    spec["failurePolicy"] = {"maxRestarts": 0, "rules": []}  # Each run has its own number of retries.
    (replicated,) = spec["replicatedJobs"]
    replicated["template"].pop("metadata", None)  # Several pods of the job may share a machine.
    job = replicated["template"]["spec"]
    del job["backoffLimit"]
    job["parallelism"] = min(sweep.spec.slots.at_once, role.pods)
    job["backoffLimitPerIndex"], job["maxFailedIndexes"] = sweep.spec.retries, role.pods
    disrupted = job["podFailurePolicy"]["rules"][0]
    job["podFailurePolicy"]["rules"] = [{**disrupted, "action": "Ignore"}]  # It goes on in a new pod, uncounted.
    return [manifest, _network_policy(deployment)]


def _network_policy(deployment: Deployment) -> Manifest:
    """Only the program's own pods may call each other: Reverb asks nobody who they are."""
    ours = {"podSelector": {"matchLabels": {RUN_LABEL: deployment.name}}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": deployment.name, "namespace": deployment.table.namespace},
        "spec": {**ours, "policyTypes": ["Ingress"], "ingress": [{"from": [ours]}]},
    }


@dataclasses.dataclass(frozen=True)
class Command:
    """Renders a program as a Kubernetes JobSet, in YAML on the standard output. The program's flags follow `--`.

    Attributes:
      program: the program's file, such as programs/muzero.py, or a sweep's, such as sweep.yaml.
      resources: a YAML file with the fields of `ResourceTable` in `deploy/resources.py`.
    """

    program: tyro.conf.Positional[pathlib.Path]
    resources: pathlib.Path


def main(arguments: list[str]) -> int:
    """Runs the command line; the exit code is 0, or 2 for bad input."""
    own, flags = split_flags(arguments)
    asked = tyro.cli(Command, prog=f"python -m {COMMAND}", args=own)
    try:
        table = read(asked.resources)
        if is_sweep(asked.program):
            manifests = render_sweep(*prepare_sweep(asked.program, flags, table))
        else:
            manifests = render(prepare(asked.program, flags, table))
    except (BadInput, ValueError) as error:
        faults.tell(error)
        return 2
    print(made_by(COMMAND, arguments, asked.program))
    yaml.safe_dump_all(manifests, sys.stdout, sort_keys=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
