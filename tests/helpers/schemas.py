"""Checks whether Kubernetes and the JobSet controller would accept a manifest, by their schemas and webhooks' rules."""

from __future__ import annotations

import copy

import kubernetes_validate
from kubeflow_trainer_api.models.io_k8s_api_core_v1_persistent_volume_claim_spec import (
    IoK8sApiCoreV1PersistentVolumeClaimSpec,
)
from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet

VERSION = "1.34"  # The version of Kubernetes.
# The allowed values of an action, which the models list in their descriptions, but not in their types.
ACTIONS = {
    "FailJobSet",
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "RestartJob",
    "RestartJobAndIgnoreMaxRestarts",
}


def problems(jobset: dict) -> list[str]:
    """Returns what is wrong with a JobSet; empty if it is valid."""
    return [*_model(jobset), *_jobs(jobset), *_webhooks(jobset)]


def _model(jobset: dict) -> list[str]:
    """Checks a JobSet with its own models, which refuse wrong values and drop unknown fields."""
    try:
        model = JobsetV1alpha2JobSet.from_dict(copy.deepcopy(jobset))
        claims = [claim for policy in _policies(jobset) for claim in policy["templates"]]
        for claim in claims:
            IoK8sApiCoreV1PersistentVolumeClaimSpec.from_dict(copy.deepcopy(claim["spec"]))
    except Exception as error:
        return [f"model: {error}"]
    return [f"dropped: {path}" for path in _lost(jobset, model.to_dict(), "")]


def _lost(before, after, path: str) -> list[str]:
    if isinstance(before, dict):
        if not isinstance(after, dict):
            return [path]
        return [lost for key in before for lost in _lost(before[key], after.get(key), f"{path}/{key}")]
    if isinstance(before, list):
        if not isinstance(after, list) or len(before) != len(after):
            return [path]
        return [lost for i, (b, a) in enumerate(zip(before, after)) for lost in _lost(b, a, f"{path}/{i}")]
    return [] if before == after else [path]


def _jobs(jobset: dict) -> list[str]:
    found = []
    for replicated in jobset["spec"].get("replicatedJobs", []):
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "x"},
            "spec": replicated["template"]["spec"],
        }
        try:
            kubernetes_validate.validate(job, VERSION, strict=True)
        except Exception as error:
            found.append(f"{replicated.get('name')}: {error}")
    return found


def _policies(jobset: dict) -> list[dict]:
    return jobset["spec"].get("volumeClaimPolicies", [])


def _webhooks(jobset: dict) -> list[str]:
    """Checks the rules of the webhooks, which are in no schema."""
    spec, found = jobset["spec"], []
    jobs = {job["name"]: job["template"]["spec"] for job in spec.get("replicatedJobs", [])}
    mounted = {
        mount["name"]
        for job in jobs.values()
        for container in job["template"]["spec"]["containers"]
        for mount in container.get("volumeMounts", [])
    }
    for name, job in jobs.items():
        pod = job["template"]["spec"]
        if "podFailurePolicy" in job and pod["restartPolicy"] != "Never":
            found.append(f"{name}: podFailurePolicy needs restartPolicy Never")
        if job["completionMode"] not in ("Indexed", "NonIndexed"):
            found.append(f"{name}: completionMode")
        amounts = [amount for only in pod["containers"] for amount in only["resources"]["limits"].values()]
        if not all(isinstance(amount, str) for amount in amounts):
            found.append(f"{name}: {amounts} are not all text, as the API gives them back")
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        claimed = {claim["metadata"]["name"] for policy in _policies(jobset) for claim in policy["templates"]}
        for container in pod["containers"]:
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes | claimed:
                    found.append(f"{name}: mount {mount['name']} has no volume")
        found += [f"{name}: volume {volume} is also claimed" for volume in volumes & claimed]
    actions = {rule["action"] for rule in spec["failurePolicy"]["rules"]}
    found += [f"failure policy: no action is called {action}" for action in actions - ACTIONS]
    if spec["successPolicy"]["operator"] not in ("All", "Any"):
        found.append("success policy: operator")
    targets = spec["successPolicy"]["targetReplicatedJobs"] + [
        target for rule in spec["failurePolicy"]["rules"] for target in rule.get("targetReplicatedJobs", [])
    ]
    found += [f"policy names no such job: {target}" for target in targets if target not in jobs]
    for policy in _policies(jobset):
        for claim in policy["templates"]:
            if claim["metadata"]["name"] not in mounted:
                found.append(f"claim {claim['metadata']['name']} is mounted nowhere")
    return found
