"""Checks of the machine, by the files in which Linux shows it; tests give other files as `root`."""

from __future__ import annotations

import os
import pathlib
import resource
import shutil
import socket

from boonta.programs.tools.checks.finding import Finding
from boonta.programs.wiring.machine import cores as wiring_cores
from boonta.programs.wiring.machine import memory as wiring_memory
from boonta.programs.wiring.machine.files import ROOT

GB = 1e9
FEW_GB = 4.0  # The processes of a small program take about half a GB each.
SHARED_MB = 64.0  # Size of a container's /dev/shm without --shm-size.
DISK_GB, LEAST_DISK_GB = 5.0, 0.5
FILES = 1024
CLIENTS = ("sbatch", "kubectl", "gcloud", "docker", "ssh")


def cores(root: pathlib.Path = ROOT) -> Finding:
    """The cores that this process may use, and their limits."""
    there, usable = os.cpu_count() or 1, len(os.sched_getaffinity(0))
    quotas = wiring_cores.time_limits(root)
    limits = [f"{usable} by affinity"] if usable < there else []
    limits += [f"{min(quotas):g} by the control group"] if quotas else []
    found = f"{there} cores" + (f", limited to {' and '.join(limits)}" if limits else "")
    if min([usable, *quotas]) < 2:
        return Finding("cores", "warning", found, "actors and learner take turns: give this process two cores or more")
    return Finding("cores", "ok", found)


def memory(root: pathlib.Path = ROOT) -> Finding:
    """The memory that is free, and the control group's limit."""
    room = wiring_memory.room(root)
    if room is None:
        return Finding("memory", "warning", "/proc/meminfo has no sizes")
    found = f"{room.total / GB:.1f} GB, of which {room.free / GB:.1f} GB are free"
    if room.limit is not None:
        found += f", limited to {room.limit / GB:.1f} GB by the control group"
    if room.left / GB < FEW_GB:
        advice = "use fewer actors and smaller tables, or --launch anakin or sebulba, which are one process"
        return Finding("memory", "warning", found, advice)
    return Finding("memory", "ok", found)


def shared_memory(root: pathlib.Path = ROOT) -> Finding:
    """The shared memory, through which several GPUs exchange gradients."""
    try:
        size_mb = shutil.disk_usage(root / "dev/shm").total / 1e6
    except OSError as error:
        return Finding("shared memory", "warning", f"no /dev/shm ({error.strerror})", "mount a tmpfs there")
    if size_mb < 2 * SHARED_MB:
        advice = "learners on several GPUs need more; in Docker: --shm-size 1g"
        return Finding("shared memory", "warning", f"{size_mb:,.0f} MB in /dev/shm", advice)
    return Finding("shared memory", "ok", f"{size_mb:,.0f} MB in /dev/shm")


def disk(folder: pathlib.Path = pathlib.Path("runs")) -> Finding:
    """The disk of the folder in which runs are kept, or will be."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free / GB
    found = f"{free:.1f} GB free for {folder}/"
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding("disk", "missing", f"{folder}/ can't be written", "go to another folder, or give --workdir")
    if free < LEAST_DISK_GB:
        return Finding("disk", "missing", found, "make room, or give a --workdir on another disk")
    if free < DISK_GB:
        return Finding("disk", "warning", found, "checkpoints and replay tables of large agents take several GB")
    return Finding("disk", "ok", found)


def open_files() -> Finding:
    """How many files and connections a process may have open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES:
        advice = f"servers of many actors need more: ulimit -n {FILES}"
        return Finding("open files", "warning", f"at most {soft:,}", advice)
    return Finding("open files", "ok", "any number" if soft == resource.RLIM_INFINITY else f"at most {soft:,}")


def loopback() -> Finding:
    """Whether a free port of this machine can be had and reached by the name localhost."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            with socket.create_connection(("localhost", server.getsockname()[1]), timeout=5.0):
                pass
    except OSError as error:
        advice = "bring the loopback device up (ip link set lo up), and name 127.0.0.1 localhost in /etc/hosts"
        return Finding("loopback", "missing", f"a free port of localhost can't be reached: {error}", advice)
    return Finding("loopback", "ok", "a free port of localhost was reached")


def clusters() -> Finding:
    """The commands by which programs reach other machines."""
    found = [name for name in CLIENTS if shutil.which(name)]
    absent = [name for name in CLIENTS if name not in found]
    text = f"there are {', '.join(found)}" if found else "no command for one"
    return Finding("clusters", "ok", f"{text}; not here: {', '.join(absent)}" if found and absent else text)
