"""The doctor's checks of machines, which are a few files."""

from __future__ import annotations

import os
import pathlib
import resource
import shutil
import types

import pytest

from boonta.programs.tools.checks import machine


def write(root: pathlib.Path, **files: str) -> None:
    """Writes files; in their names __ stands for a folder's end."""
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def meminfo(total_gb: int, free_gb: int) -> str:
    return f"MemTotal: {total_gb * 10**9 // 1024} kB\nMemAvailable: {free_gb * 10**9 // 1024} kB\n"


def test_cores_are_limited_by_affinity_and_by_any_control_group_above(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(8))
    assert machine.cores(tmp_path) == ("cores", "ok", "16 cores, limited to 8 by affinity", "")
    write(tmp_path, proc__self__cgroup="0::/pod/job\n")
    (tmp_path / "sys/fs/cgroup/pod/job").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/pod/job/cpu.max").write_text("max 100000\n")
    (tmp_path / "sys/fs/cgroup/pod/cpu.max").write_text("150000 100000\n")
    finding = machine.cores(tmp_path)
    assert finding.state == "warning" and finding.found.endswith("8 by affinity and 1.5 by the control group")


def test_memory_is_limited_by_older_control_groups_too(tmp_path):
    write(tmp_path, proc__meminfo=meminfo(64, 32), proc__self__cgroup="4:memory:/job\n")
    assert machine.memory(tmp_path)[:3] == ("memory", "ok", "64.0 GB, of which 32.0 GB are free")
    (tmp_path / "sys/fs/cgroup/memory/job").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory/job/memory.limit_in_bytes").write_text("2000000000\n")
    finding = machine.memory(tmp_path)
    assert finding.state == "warning" and finding.found.endswith("limited to 2.0 GB by the control group")


def test_memory_that_is_taken(tmp_path):
    write(tmp_path, proc__meminfo=meminfo(64, 3))
    assert machine.memory(tmp_path).state == "warning"
    write(tmp_path, proc__meminfo="")
    assert machine.memory(tmp_path).state == "warning"


def has_disk(monkeypatch, gb: float) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(total=gb * 1e9, free=gb * 1e9))


@pytest.mark.parametrize(("gb", "state"), [(1.0, "ok"), (0.064, "warning")])
def test_little_shared_memory(tmp_path, monkeypatch, gb, state):
    has_disk(monkeypatch, gb)
    assert machine.shared_memory(tmp_path).state == state


def test_no_shared_memory(tmp_path):
    assert machine.shared_memory(tmp_path).found == "no /dev/shm (No such file or directory)"


@pytest.mark.parametrize(("gb", "state"), [(100.0, "ok"), (2.0, "warning"), (0.1, "missing")])
def test_a_disk_that_is_nearly_full(tmp_path, monkeypatch, gb, state):
    has_disk(monkeypatch, gb)
    finding = machine.disk(tmp_path / "runs")
    assert finding.state == state and finding.found.startswith(f"{gb:.1f} GB free")


def test_a_disk_that_can_not_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert machine.disk(tmp_path / "runs").state == "missing"


@pytest.mark.parametrize(("limit", "state"), [(resource.RLIM_INFINITY, "ok"), (1024, "ok"), (256, "warning")])
def test_few_open_files(monkeypatch, limit, state):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert machine.open_files().state == state


def test_a_loopback_device_that_is_down(monkeypatch):
    def refuse(*address, **options):
        raise OSError("Network is unreachable")

    assert machine.loopback().state == "ok"
    monkeypatch.setattr(machine.socket, "create_connection", refuse)
    finding = machine.loopback()
    assert finding.state == "missing" and finding.found.endswith("Network is unreachable")


def test_the_commands_of_clusters(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: name if name in ("ssh", "kubectl") else None)
    assert machine.clusters().found == "there are kubectl, ssh; not here: sbatch, gcloud, docker"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert machine.clusters() == ("clusters", "ok", "no command for one", "")
