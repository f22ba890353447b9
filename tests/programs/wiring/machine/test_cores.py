import os

import pytest

from boonta.programs.wiring.machine import cores


@pytest.mark.parametrize(
    ("group", "file", "content", "expected"),
    [
        ("0::/pod", "pod/cpu.max", "400000 100000", 4),
        ("0::/pod/inner", "pod/cpu.max", "150000 50000", 3),
        ("0::/pod", "pod/cpu.max", "max 100000", 16),
        ("0::/pod", "pod/cpu.max", "50000 100000", 1),
        ("4:cpu,cpuacct:/pod", "cpu/pod/cpu.cfs_quota_us", "800000", 8),
        ("4:cpu,cpuacct:/pod", "cpu/pod/cpu.cfs_quota_us", "-1", 16),
    ],
)
def test_a_control_groups_time_limits_the_cores(tmp_path, monkeypatch, group, file, content, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    for path, text in (("proc/self/cgroup", group), (f"sys/fs/cgroup/{file}", content)):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text + "\n")
    assert cores.usable(tmp_path) == expected
