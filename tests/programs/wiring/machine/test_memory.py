"""Out-of-memory kills, from files like those of Linux, and whom they take first."""

from __future__ import annotations

import pytest

from boonta.programs.wiring.machine import memory


@pytest.fixture
def files(tmp_path):
    for name in ("proc/self", "sys/fs/cgroup/jobs/mine"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def test_where_nothing_is_counted_nothing_happened(files):
    seen = memory.OutOfMemory(files)
    assert memory.kills(files) == 0 and not seen.happened()


def test_the_machines_counter_is_taken_where_the_group_has_none(files):
    (files / "proc/vmstat").write_text("pgfault 7\noom_kill 3\nballoon 0\n")
    (files / "proc/self/cgroup").write_text("4:memory:/jobs/mine\n0::/jobs/mine\n")
    assert memory.kills(files) == 3


def test_a_kill_in_the_control_group_is_seen_once(files):
    events = files / "sys/fs/cgroup/jobs/mine/memory.events"
    (files / "proc/vmstat").write_text("oom_kill 30\n")
    (files / "proc/self/cgroup").write_text("0::/jobs/mine\n")
    events.write_text("low 0\noom 0\noom_kill 0\n")
    seen = memory.OutOfMemory(files)
    events.write_text("low 0\noom 1\noom_kill 1\n")
    assert seen.happened() and not seen.happened()


def test_a_kill_in_a_group_of_an_older_hierarchy_is_seen(files):
    (files / "sys/fs/cgroup/memory/jobs/mine").mkdir(parents=True)
    (files / "proc/vmstat").write_text("oom_kill 30\n")
    (files / "proc/self/cgroup").write_text("4:cpu,memory:/jobs/mine\n0::/\n")
    (files / "sys/fs/cgroup/memory/jobs/mine/memory.oom_control").write_text(
        "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"
    )
    assert memory.kills(files) == 2


@pytest.mark.parametrize(("before", "after"), [("0", 100), ("250", 350), ("950", 1000), ("-1000", -1000)])
def test_a_node_is_offered_before_its_launcher_unless_it_is_excluded(tmp_path, monkeypatch, before, after):
    monkeypatch.setattr(memory, "PREFERENCE", tmp_path / "oom_score_adj")
    (tmp_path / "oom_score_adj").write_text(f"{before}\n")
    memory.offer_first()
    assert int((tmp_path / "oom_score_adj").read_text()) == after


def test_where_there_is_no_preference_nothing_is_offered(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "PREFERENCE", tmp_path / "none" / "oom_score_adj")
    memory.offer_first()
    assert not (tmp_path / "none").exists()
