"""Runs a rendered JobSet without Kubernetes: a network and UTS namespace per pod, with its names, restarts and end."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[2]
BRIDGE = "boontabr"
LIMIT_S = 400.0


def possible() -> bool:
    """Whether this machine lets us make network namespaces."""
    if os.geteuid() or not shutil.which("ip") or not shutil.which("unshare"):
        return False
    made = subprocess.run(["ip", "netns", "add", "boontatry"], capture_output=True).returncode == 0
    linked = made and _quiet("ip", "link", "add", BRIDGE, "type", "bridge")
    _quiet("ip", "link", "del", BRIDGE)
    _quiet("ip", "netns", "del", "boontatry")
    return linked


def _quiet(*command: str) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


def _do(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


class JobFailed(Exception):
    """A job whose pods start again alone has used its backoffLimit; names it."""


class Pod:
    """One index of a replicated job."""

    def __init__(self, number: int, jobset: dict, replicated: dict, index: int):
        self.label, self.index = replicated["name"], index
        self.job = replicated["template"]["spec"]
        self.spec = self.job["template"]["spec"]
        self.host = f"{jobset['metadata']['name']}-{self.label}-0-{index}"
        self.address, self.namespace, self.link = f"10.213.0.{number + 2}", f"boonta{number}", f"boontav{number}"
        self.starts, self.retries, self.process = 0, 0, None

    def command(self) -> tuple[list[str], dict[str, str]]:
        (only,) = self.spec["containers"]
        variables = {v["name"]: v["value"] if "value" in v else str(self.index) for v in only["env"]}
        words = []
        for word in only["command"]:
            for name, value in variables.items():
                word = word.replace(f"$({name})", value)
            words.append(word.replace("$$(", "$("))
        return [sys.executable, *words[1:]], variables


class Pods:
    """The pods of a JobSet, in a `with`; `run` plays the controller."""

    def __init__(self, jobset: dict, logs: pathlib.Path):
        self._jobset, self._logs = jobset, logs
        self.restarts = 0  # of the whole set
        self.pods = []
        for replicated in jobset["spec"]["replicatedJobs"]:
            for index in range(replicated["template"]["spec"]["completions"]):
                self.pods.append(Pod(len(self.pods), jobset, replicated, index))

    def __enter__(self) -> Pods:
        self._clear()
        _do("ip", "link", "add", BRIDGE, "type", "bridge")
        _do("ip", "link", "set", BRIDGE, "up")
        subdomain = self._jobset["spec"]["network"]["subdomain"]
        names = "".join(f"{pod.address} {pod.host}.{subdomain} {pod.host}\n" for pod in self.pods)
        for pod in self.pods:
            _do("ip", "netns", "add", pod.namespace)
            _do("ip", "link", "add", pod.link, "type", "veth", "peer", "name", "eth0", "netns", pod.namespace)
            _do("ip", "link", "set", pod.link, "master", BRIDGE, "up")
            _do("ip", "-n", pod.namespace, "addr", "add", f"{pod.address}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                _do("ip", "-n", pod.namespace, "link", "set", device, "up")
            hosts = pathlib.Path("/etc/netns") / pod.namespace / "hosts"
            hosts.parent.mkdir(parents=True, exist_ok=True)
            hosts.write_text(f"127.0.0.1 localhost\n{names}")
        for pod in self.pods:
            self._start(pod)
        return self

    def __exit__(self, *error: object) -> None:
        self._end_all(signal.SIGKILL)
        self._clear()

    def pod(self, label: str, index: int = 0) -> Pod:
        (found,) = (pod for pod in self.pods if (pod.label, pod.index) == (label, index))
        return found

    def run(self, until) -> bool:
        """Restarts what is to be restarted until the set has succeeded (True) or `until()` holds (False)."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            if self._succeeded():
                return True
            if until():
                return False
            self._control()
            time.sleep(0.2)
        raise AssertionError(f"after {LIMIT_S} s: {self.output()}")

    def output(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in sorted(self._logs.glob("*.log")))

    def end(self) -> None:
        """As the controller does when the set has succeeded."""
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
            for pod in self.pods:
                pod.retries = 0
                self._start(pod)
            return
        for pod in failed:
            pod.retries += 1
            if pod.retries > pod.job["backoffLimit"]:
                raise JobFailed(pod.label)
            self._start(pod)

    def _start(self, pod: Pod) -> None:
        command, variables = pod.command()
        path = {name: os.environ[name] for name in ("PATH",)}
        inside = ["unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', pod.host, *command]
        pod.starts += 1
        with open(self._logs / f"{pod.host}.log", "a") as log:
            pod.process = subprocess.Popen(
                ["ip", "netns", "exec", pod.namespace, *inside],
                env={**path, **variables, "PYTHONPATH": str(ROOT)},
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

    def _clear(self) -> None:
        for pod in self.pods:
            _quiet("ip", "link", "del", pod.link)
            _quiet("ip", "netns", "del", pod.namespace)
            shutil.rmtree(pathlib.Path("/etc/netns") / pod.namespace, ignore_errors=True)
        _quiet("ip", "link", "del", BRIDGE)
