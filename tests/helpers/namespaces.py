"""Several hosts on one machine: network and UTS namespaces on one bridge, with names that all of them resolve."""

from __future__ import annotations

import fcntl
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

NOBODY = 65534  # A user without rights.
BRIDGE = "boontabr"
LOCK = pathlib.Path(tempfile.gettempdir()) / "boonta-namespaces.lock"


def can_unshare(**options) -> bool:
    """Returns whether a process can enter a network namespace of its own; options are those of `subprocess.run`."""
    return subprocess.run(["unshare", "-Urn", "true"], capture_output=True, **options).returncode == 0


@functools.cache
def missing() -> str:
    """Returns the reason why this machine can't make namespaces, or an empty string if it can."""
    absent = [name for name in ("ip", "unshare", "nsenter") if not shutil.which(name)]
    if absent:
        return f"{', '.join(absent)} not installed: Debian's iproute2 and util-linux have them"
    if os.geteuid():
        return "only root can make network namespaces"
    return "" if _possible() else "the kernel lets not even root make network namespaces"


def _possible() -> bool:
    name = f"boonta{os.getpid()}"  # Pytest's workers try at once.
    made = _quiet("ip", "netns", "add", name)
    linked = made and _quiet("ip", "link", "add", name, "type", "bridge")
    _quiet("ip", "link", "del", name)
    _quiet("ip", "netns", "del", name)
    return linked


class Hosts:
    """A context manager that makes hosts.

    Args:
      names: the names of each host; the first is its own hostname.
    """

    def __init__(self, *names: Sequence[str]):
        self._names = [tuple(own) for own in names]

    def __enter__(self) -> Hosts:
        self._turn = open(LOCK, "w")  # noqa: SIM115  # The lock is held until the end, because tests run in parallel.
        fcntl.flock(self._turn, fcntl.LOCK_EX)
        self._clear()
        _do("ip", "link", "add", BRIDGE, "type", "bridge")
        _do("ip", "link", "set", BRIDGE, "up")
        known = "".join(f"10.213.0.{i + 2} {' '.join(own)}\n" for i, own in enumerate(self._names))
        for i in range(len(self._names)):
            space, link = f"boonta{i}", f"boontav{i}"
            _do("ip", "netns", "add", space)
            _do("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
            _do("ip", "link", "set", link, "master", BRIDGE, "up")
            _do("ip", "-n", space, "addr", "add", f"10.213.0.{i + 2}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                _do("ip", "-n", space, "link", "set", device, "up")
            hosts = pathlib.Path("/etc/netns") / space / "hosts"
            hosts.parent.mkdir(parents=True, exist_ok=True)
            hosts.write_text(f"127.0.0.1 localhost\n{known}")
        return self

    def __exit__(self, *error: object) -> None:
        self._clear()
        self._turn.close()

    def on(self, name: str, *command: str) -> list[str]:
        """Returns a command that runs `command` on a host by replacing itself with it, so that signals reach it."""
        (i,) = (i for i, own in enumerate(self._names) if own[0] == name)
        script = 'mount --bind "$0" /etc/hosts && hostname "$1" && shift && exec "$@"'  # Slurmd needs /sys.
        inside = ["unshare", "--uts", "--mount", "sh", "-c", script, f"/etc/netns/boonta{i}/hosts", name, *command]
        return ["nsenter", f"--net=/var/run/netns/boonta{i}", *inside]

    def _clear(self) -> None:
        for i in range(len(self._names)):
            _quiet("ip", "link", "del", f"boontav{i}")
            _quiet("ip", "netns", "del", f"boonta{i}")
            shutil.rmtree(f"/etc/netns/boonta{i}", ignore_errors=True)
        _quiet("ip", "link", "del", BRIDGE)


def _quiet(*command: str) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


def _do(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
