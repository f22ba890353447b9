"""Nodes as threads of one process: what a failure leaves for whoever looks for its cause."""

from __future__ import annotations

import threading

import pytest

from boonta.nodes.base import Node
from boonta.nodes.hosts.coordination import Hosts
from boonta.nodes.hosts.host_monitor import HostMonitor
from boonta.nodes.monitor import Monitor
from boonta.nodes.watch.stopping import COLLAPSED_CODE, StopRule
from boonta.programs.wiring import launch
from boonta.programs.wiring.interpreters import threads
from boonta.programs.wiring.run_folder import journal, temporary
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.solo_program import solo_program

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


@pytest.fixture
def hanging(monkeypatch):
    """Nodes whose threads hang, and a program that ends with them."""
    hangs = threading.Event()
    monkeypatch.setattr(threads, "_run_node", lambda node: hangs.wait(DEADLINE_S))
    monkeypatch.setattr(threads.supervise, "stay", lambda *given: COLLAPSED_CODE)
    yield
    hangs.set()
    for worker in threads._workers:
        worker._future.result(DEADLINE_S)


@pytest.mark.usefixtures("hanging")
@pytest.mark.parametrize("agreed", [True, False])
def test_hosts_part_as_they_have_agreed_whatever_the_exit_code_and_though_a_thread_hangs(tmp_path, monkeypatch, agreed):
    did = []
    monkeypatch.setattr(Hosts, "leave", lambda self, agreed: did.append(agreed))
    monitor = HostMonitor("monitor", str(tmp_path), StopRule(), Hosts("here:1", 2, 0))
    monitor.agreed = agreed
    assert threads.run(monitor, []) == COLLAPSED_CODE and threads.hang()
    assert did == [agreed]


@pytest.mark.usefixtures("hanging")
def test_a_thread_that_hangs_ends_the_process_once_all_is_written_and_what_runs_beside_it_has_ended(
    tmp_path, monkeypatch
):
    """A sweep takes the exit code from the last line of a run's log."""
    did = []

    class Ended(BaseException):
        """Stands for the end of the process."""

    def end_now(code: int) -> None:
        did.append((code, journal.last_code(tmp_path), [path.name for path in tmp_path.glob(temporary.FOLDER)]))
        raise Ended

    monkeypatch.setattr(launch, "prepare", lambda program: lambda: threads.run(Monitor("monitor", "", StopRule()), []))
    monkeypatch.setattr(launch.Trackers, "end", lambda self, wait_s=0.0: did.append("trackers end"))
    monkeypatch.setattr(launch, "end_now", end_now)
    with pytest.raises(Ended):
        launch.main(solo_program, ["--workdir", str(tmp_path), "--launch", "sebulba"])
    assert did == ["trackers end", (COLLAPSED_CODE, COLLAPSED_CODE, [])]
