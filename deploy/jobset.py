"""Renders a program as a Kubernetes JobSet, for TPU slices on GKE and any other cluster that runs JobSet.

    ./run python -m deploy.jobset programs/muzero_atari.py --resources table.yaml -- --game Pong | kubectl apply -f -

A pod per node of the program, in a replicated job per group. What makes the program end or start again:

- the learner's job succeeds: so does the set, and all other pods are ended;
- the learner's pod fails, or ends because another node has failed: the set starts again, `max_restarts` times;
- the learner's pod is preempted or evicted: the set starts again, however often;
- another pod fails or is preempted: it alone starts again. `deploy.core` says when the program can go on without it.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from typing import Any

import tyro
import yaml

from deploy import core, resources
from deploy.program import ROOT, Built, build, split_flags
from programs.launch import check_nodes
from programs.run import BadInput

Manifest = dict[str, Any]

RUN_LABEL = "boonta/run"
INDEX = "BOONTA_INDEX"
USER = 1000  # of the image
GRACE_S = 120  # to save in; a preempted TPU gets less
RETRIES = 1_000_000  # of pods that start again alone: their failures end the program by themselves if they must
WORKDIR = "/runs"
VITAL = "learner"
# What a group saves: the volume's name, and where in the run's folder it is mounted.
SAVED = {"monitor": ("run", ""), "learner": ("checkpoints", "checkpoints"), "replay": ("replay", "replay")}
EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
LONGEST_NAME = 63


@dataclasses.dataclass(frozen=True)
class Deployment:
    """A program as it is to be rendered.

    Attributes:
      name: of the JobSet, its headless service and its network policy.
      file: the program's, relative to the repository and to the image's folder.
      flags: the program's, with the run's folder.
      built: with those flags.
      table: resources.
    """

    name: str
    file: pathlib.Path
    flags: tuple[str, ...]
    built: Built
    table: resources.Table

    @property
    def hosts(self) -> str:
        """A pattern for the pods' stable names: JobSet, group, job, pod, headless service."""
        return f"{self.name}-{{label}}-0-{{index}}.{self.name}"


def prepare(file: pathlib.Path, flags: list[str], table: resources.Table) -> Deployment:
    """Builds the program and checks all that can be checked here.

    Raises:
      BadInput, ValueError: it could not run, or not with these resources.
    """
    if any(flag.partition("=")[0] == "--workdir" for flag in flags):
        raise BadInput("--workdir is the pods' own folder, on their volumes: leave it out")
    stem = (table.name or file.stem).replace("_", "-")
    flags = [*flags, "--workdir", f"{WORKDIR}/{stem}"]
    built = build(file, flags)
    if not file.resolve().is_relative_to(ROOT):
        raise BadInput(f"program file {file} is not below {ROOT}, whose files the image has")
    check_nodes(built.program)
    table.require_known(built.program.groups)
    deployment = Deployment(stem, file.resolve().relative_to(ROOT), tuple(flags), built, table)
    if not resources.DNS_LABEL.fullmatch(stem):
        raise BadInput(f"{stem!r} can't name pods; set name in the resource table: lower-case letters, digits, dashes")
    for label, nodes in built.program.groups.items():
        longest = f"{stem}-{label}-0-{_completions(deployment, label) - 1}-xxxxx"  # as pods are called
        if len(longest) > LONGEST_NAME:
            raise BadInput(f"pods would be called {longest}, over {LONGEST_NAME} letters: set a shorter name")
        _require_one_host(label, nodes, table.group(label))
        if label in SAVED and not table.group(label).volume:
            raise BadInput(f"groups.{label}: volume is empty; the group needs one, to go on from what it has saved")
    core.bind(built.program, core.host_function(deployment.hosts, core.plan(built.program)))
    return deployment


def _require_one_host(label: str, nodes: list[Any], group: resources.Group) -> None:
    """Raises BadInput if a node would span hosts and can't, or several would."""
    (kind,) = {node._constructor for node in nodes}
    if group.hosts > 1 and not getattr(kind, "spans_hosts", False):
        raise BadInput(
            f"groups.{label}: a {group.topology} slice has {group.hosts} hosts of {group.chips_on_a_host} chips, and "
            f"{kind.__name__} works on one; choose a slice of one host, such as 2x4 with chips_per_host 8"
        )
    if group.hosts > 1 and len(nodes) > 1:
        raise BadInput(f"groups.{label}: {len(nodes)} nodes of {group.hosts} hosts each; only one node may span hosts")


def render(deployment: Deployment) -> list[Manifest]:
    """The JobSet and its network policy."""
    return [_jobset(deployment), _network_policy(deployment)]


def _jobset(deployment: Deployment) -> Manifest:
    table, groups = deployment.table, list(deployment.built.program.groups)
    metadata: Manifest = {"name": deployment.name, "namespace": table.namespace}
    if table.queue:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": table.queue}
    # A failure rule is the first that matches; where none does, the set starts again and it counts.
    preempted = {
        "name": "preempted",
        "action": "RestartJobSetAndIgnoreMaxRestarts",
        "onJobFailureReasons": ["PodFailurePolicy"],
        "targetReplicatedJobs": [VITAL],
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {
            # Pods find each other before they are ready: each waits for the servers that it calls.
            "network": {"enableDNSHostnames": True, "subdomain": deployment.name, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": [VITAL]},
            "failurePolicy": {"maxRestarts": table.max_restarts, "rules": [preempted]},
            "volumeClaimPolicies": [
                {
                    "templates": [_claim(deployment, label) for label in groups if label in SAVED],
                    "retentionPolicy": {"whenDeleted": "Retain"},
                }
            ],
            "replicatedJobs": [_replicated_job(deployment, label) for label in groups],
        },
    }


def _replicated_job(deployment: Deployment, label: str) -> Manifest:
    group, completions = deployment.table.group(label), _completions(deployment, label)
    job: Manifest = {
        "completionMode": "Indexed",
        "completions": completions,
        "parallelism": completions,
        "backoffLimit": 0 if label == VITAL else RETRIES,
        "template": {"metadata": {"labels": {RUN_LABEL: deployment.name}}, "spec": _pod(deployment, label)},
    }
    if label == VITAL:
        disrupted = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        job["podFailurePolicy"] = {"rules": [disrupted]}
    template: Manifest = {"spec": job}
    if label == VITAL and group.accelerator:
        template["metadata"] = {"annotations": EXCLUSIVE}  # of this job: others may share machines
    return {"name": label, "replicas": 1, "template": template}


def _pod(deployment: Deployment, label: str) -> Manifest:
    group = deployment.table.group(label)
    selector = dict(group.node_selector)
    if group.accelerator:
        selector["cloud.google.com/gke-tpu-accelerator"] = group.accelerator
        selector["cloud.google.com/gke-tpu-topology"] = group.topology
    pod: Manifest = {
        "restartPolicy": "Never" if label == VITAL else "OnFailure",
        "terminationGracePeriodSeconds": GRACE_S,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostNetwork": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,  # volumes are writable
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(deployment, label)],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    return {**pod, "nodeSelector": selector} if selector else pod


def _container(deployment: Deployment, label: str) -> Manifest:
    group, environment = deployment.table.group(label), deployment.built.environment[label]
    index = "0" if group.hosts > 1 else f"$({INDEX})"  # hosts of one node are told apart by JAX
    own = [str(deployment.file), "--label", label, "--index", index, "--hosts", deployment.hosts]
    variables = {**environment, core.ENTERED: core.entered(environment), "PYTHONUNBUFFERED": "1", "HOME": "/tmp"}
    annotation = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    amounts = {"cpu": group.cpu, "memory": group.memory}
    if group.accelerator:
        amounts["google.com/tpu"] = str(group.chips_on_a_host)
    if group.gpus:
        amounts["nvidia.com/gpu"] = str(group.gpus)
    container: Manifest = {
        "name": "node",
        "image": deployment.table.image,
        "command": ["python", "-m", "deploy.node", *own, "--", *map(_literal, deployment.flags)],
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
    if label in SAVED:
        name, folder = SAVED[label]
        path = str(pathlib.PurePosixPath(deployment.built.run.workdir) / folder)
        container["volumeMounts"].append({"name": name, "mountPath": path})
    ports = [port for task in core.plan(deployment.built.program) if task.label == label for port in task.ports]
    return {**container, "ports": [{"containerPort": port} for port in ports]} if ports else container


def _literal(flag: str) -> str:
    """A flag in which Kubernetes expands no variable."""
    return flag.replace("$(", "$$(")


def _claim(deployment: Deployment, label: str) -> Manifest:
    """The volume that a group's pods share; the JobSet controller puts it into them."""
    table = deployment.table
    spec: Manifest = {
        "accessModes": ["ReadWriteMany" if _completions(deployment, label) > 1 else "ReadWriteOnce"],
        "resources": {"requests": {"storage": table.group(label).volume}},
    }
    if table.storage_class:
        spec["storageClassName"] = table.storage_class
    return {"metadata": {"name": SAVED[label][0]}, "spec": spec}


def _completions(deployment: Deployment, label: str) -> int:
    """Pods of a group: one for each host of each node."""
    return len(deployment.built.program.groups[label]) * deployment.table.group(label).hosts


def _network_policy(deployment: Deployment) -> Manifest:
    """Only the program's own pods may call each other: whoever reaches courier can run code."""
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
      program: its file, such as programs/muzero_atari.py.
      resources: YAML file; `deploy/resources.py` says what may be in it.
    """

    program: tyro.conf.Positional[pathlib.Path]
    resources: pathlib.Path


def main(arguments: list[str]) -> int:
    """The command line; the exit code: 2 for what can't work."""
    own, flags = split_flags(arguments)
    asked = tyro.cli(Command, args=own)
    try:
        manifests = render(prepare(asked.program, flags, resources.read(asked.resources)))
    except (BadInput, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    yaml.safe_dump_all(manifests, sys.stdout, sort_keys=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
