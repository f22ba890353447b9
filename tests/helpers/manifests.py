"""The parts of a rendered JobSet."""

from __future__ import annotations


def job(manifest, label):
    (found,) = (job for job in manifest["spec"]["replicatedJobs"] if job["name"] == label)
    return found


def pod(manifest, label):
    return job(manifest, label)["template"]["spec"]["template"]["spec"]


def container(manifest, label):
    (only,) = pod(manifest, label)["containers"]
    return only
