"""Nodes as threads of one process: what a failure leaves for whoever looks for its cause."""

from __future__ import annotations

import threading

import pytest

from boonta.nodes.base import Node
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.hosts.host_monitor import HostMonitor
from boonta.nodes.watch.stopping import COLLAPSED_CODE, StopRule
from boonta.programs.wiring.interpreters import threads
from boonta.programs.wiring.run_folder import journal
from boonta.tests.helpers.deadline import DEADLINE_S

NOTE = "For simplicity, JAX has removed its internal frames"


class Failing(Node):
    def step(self) -> None:
        error = KeyError("left")
        error.__notes__ = [NOTE]  # As JAX adds it.
        raise error


def test_the_lines_of_code_that_led_to_a_failure_are_shown_and_kept(tmp_path, capsys):
    node = Failing("learner")
    with journal.kept_in(tmp_path), pytest.raises(KeyError):
        threads._run_node(node)
    kept = (tmp_path / journal.FILE).read_text()
    for text in (capsys.readouterr().err, kept):
        assert f'"{__file__}"' in text and "in step" in text and "KeyError: 'left'" in text
    assert "learner failed" in kept
    assert node.own_failure == "learner failed while stepping: KeyError: 'left'"


@pytest.mark.parametrize("agreed", [True, False])
def test_hosts_part_as_they_have_agreed_whatever_the_exit_code_and_before_a_thread_that_hangs_ends_the_process(
    tmp_path, monkeypatch, agreed
):
    hangs, did = threading.Event(), []
    monkeypatch.setattr(threads, "_run_node", lambda node: hangs.wait(DEADLINE_S))
    monkeypatch.setattr(threads.supervise, "stay", lambda *given: COLLAPSED_CODE)
    monkeypatch.setattr(Hosts, "leave", lambda self, agreed: did.append(("left", agreed)))
    monkeypatch.setattr(threads, "end_now", lambda code: did.append(("ended", code)))
    monitor = HostMonitor("monitor", str(tmp_path), StopRule(), Hosts("here:1", 2, 0))
    monitor.agreed = agreed
    try:
        assert threads.run(monitor, []) == COLLAPSED_CODE
    finally:
        hangs.set()
    assert did == [("left", agreed), ("ended", COLLAPSED_CODE)]
