"""Runs a rendered JobSet without Kubernetes: each pod is a namespace; names, restarts and the end work as there."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

from boonta.programs.wiring.supervision import dependent
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.namespaces import Hosts

ROOT = pathlib.Path(__file__).resolve().parents[2]


class JobFailed(Exception):
    """Raised when a job whose pods restart individually has failed, and the set with it; the message names the job."""


def expanded(word: str, variables: Mapping[str, str]) -> str:
    """A word as Kubernetes gives it to a container: `$$` is one `$`, which begins no variable."""
    value = lambda found: variables.get(found[1], found[0]) if found[1] else "$"  # noqa: E731
    return re.sub(r"\$\$|\$\((\w+)\)", value, word)


class Pod:
    """One pod: an index of a replicated job."""

    def __init__(self, jobset: dict, replicated: dict, index: int):
        self.label, self.index = replicated["name"], index
        self.job = replicated["template"]["spec"]
        self.spec = self.job["template"]["spec"]
        self.host = f"{jobset['metadata']['name']}-{self.label}-0-{index}"
        self.starts, self.retries, self.process = 0, 0, None

    def command(self) -> tuple[list[str], dict[str, str]]:
        (only,) = self.spec["containers"]
        variables = {v["name"]: expanded(v.get("value", str(self.index)), {}) for v in only["env"]}
        words = [expanded(word, variables) for word in only["command"]]
        return [sys.executable, *words[1:]], variables

    @property
    def fails_job(self) -> bool:
        """Whether the job's rules let it fail by the code with which the pod has ended."""
        rules = self.job.get("podFailurePolicy", {"rules": []})["rules"]
        codes = [
            rule["onExitCodes"]["values"] for rule in rules if "onExitCodes" in rule and rule["action"] == "FailJob"
        ]
        return any(self.process.returncode in each for each in codes)


class Pods:
    """A context manager that starts the pods of a JobSet; `run` acts as the JobSet controller."""

    def __init__(self, jobset: dict, logs: pathlib.Path):
        self._jobset, self._logs = jobset, logs
        self.restarts = 0  # Restarts of the whole set.
        self.when_down: Callable[[], None] = lambda: None  # Called when all pods have ended, before they start again.
        self.pods = []
        for replicated in jobset["spec"]["replicatedJobs"]:
            for index in range(replicated["template"]["spec"]["completions"]):
                self.pods.append(Pod(jobset, replicated, index))
        subdomain = jobset["spec"]["network"]["subdomain"]
        self._hosts = Hosts(*((pod.host, f"{pod.host}.{subdomain}") for pod in self.pods))

    def __enter__(self) -> Pods:
        self._hosts.__enter__()
        for pod in self.pods:
            self._start(pod)
        return self

    def __exit__(self, *error: object) -> None:
        self._end_all(signal.SIGKILL)
        self._hosts.__exit__()

    def pod(self, label: str, index: int = 0) -> Pod:
        (found,) = (pod for pod in self.pods if (pod.label, pod.index) == (label, index))
        return found

    def run(self, until, limit_s: float = DEADLINE_S) -> bool:
        """Restarts failed pods until the set has succeeded (returns True) or `until()` is true (returns False)."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if self._succeeded():
                return True
            if until():
                return False
            self._control()
            time.sleep(0.2)
        raise AssertionError(f"after {limit_s} s: {self.output()}")

    def output(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in sorted(self._logs.glob("*.log")))

    def end(self) -> None:
        """Ends all pods, as the controller does when the set has succeeded."""
        self._end_all(signal.SIGTERM)

    def _succeeded(self) -> bool:
        targets = self._jobset["spec"]["successPolicy"]["targetReplicatedJobs"]
        return all(pod.process.poll() == 0 for pod in self.pods if pod.label in targets)

    def _control(self) -> None:
        failed = [pod for pod in self.pods if pod.process.poll() not in (None, 0)]
        if any(pod.spec["restartPolicy"] == "Never" and pod.job["backoffLimit"] == 0 for pod in failed):
            self.restarts += 1
            assert self.restarts <= self._jobset["spec"]["failurePolicy"]["maxRestarts"], self.output()
            self._end_all(signal.SIGTERM)
            self.when_down()
            for pod in self.pods:
                pod.retries = 0
                self._start(pod)
            return
        for pod in failed:
            pod.retries += 1
            if pod.retries > pod.job["backoffLimit"] or pod.fails_job:
                raise JobFailed(pod.label)
            self._start(pod)

    def _start(self, pod: Pod) -> None:
        command, variables = pod.command()
        path = {name: os.environ[name] for name in ("PATH",)}
        pod.starts += 1
        with open(self._logs / f"{pod.host}.log", "a") as log:
            pod.process = subprocess.Popen(
                dependent.command(*self._hosts.on(pod.host, *command)),  # No pod outlives a killed test.
                env={**path, **variables},
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _end_all(self, number: int) -> None:
        for pod in self.pods:
            if pod.process is not None and pod.process.poll() is None:
                pod.process.send_signal(number)
        for pod in self.pods:
            if pod.process is not None:
                try:
                    pod.process.wait(pod.spec["terminationGracePeriodSeconds"])
                except subprocess.TimeoutExpired:
                    pod.process.kill()
                    pod.process.wait()
