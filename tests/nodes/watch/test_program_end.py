"""The end of a program, by a clock that the test moves."""

from __future__ import annotations

import os
import types

from boonta.nodes.watch import program_end, roster


def test_saves_and_pauses_do_not_count(monkeypatch):
    now = [100.0]
    for module in (program_end, roster):
        monkeypatch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    nodes = roster.Roster(silent_s=15.0)
    end = program_end.ProgramEnd(nodes)
    end.ask("updates reached 5")
    for passed in (1.0, 1.0, 600.0, 1.0):
        now[0] += passed
        nodes.grow_silent()
    assert end.seconds == 3.0 + roster.LONGEST_ROUND_S and not end.over
    monkeypatch.setattr(nodes, "saving", lambda: ["learner"])
    now[0] += 1.0
    nodes.grow_silent()
    assert end.seconds == 3.0 + roster.LONGEST_ROUND_S
    monkeypatch.setattr(nodes, "saving", lambda: [])
    for _ in range(20):
        now[0] += 1.0
        nodes.grow_silent()
    assert end.over


def test_a_monitor_whose_launcher_is_gone_waits_for_nobody(monkeypatch):
    end = program_end.ProgramEnd(roster.Roster(silent_s=15.0))
    end.ask("the launcher is gone")
    assert not end.over
    monkeypatch.setattr(os, "getppid", lambda: 1 + end._launcher)
    assert end.over
