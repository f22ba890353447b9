"""The process of a monitor that is started by its own command keeps the run's log, as a launcher does."""

from __future__ import annotations

import errno
import pathlib
import signal
import threading
import types

import pytest

from boonta.deploy import core
from boonta.deploy.program import spread
from boonta.nodes.monitor import Monitor
from boonta.nodes.watch.stopping import StopRule
from boonta.programs.experiments.outcome import is_done
from boonta.programs.experiments.plan import Job
from boonta.programs.experiments.spec import Entry
from boonta.programs.wiring.joining import FILE
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder import journal
from boonta.programs.wiring.run_folder.state import state_of
from boonta.programs.wiring.supervision import interrupts
from boonta.tests.helpers.deadline import DEADLINE_S

pytestmark = pytest.mark.once
LIGHT = pathlib.Path(__file__).parents[1] / "helpers" / "light_program.py"
JOB = Job("job", (Entry("job", str(LIGHT), "", 0, {"stop.updates": 5}, {}),))


@pytest.fixture
def node(monkeypatch):
    """The module, without what it does to a process that is to end soon."""
    before = signal.getsignal(signal.SIGTERM)
    from boonta.deploy import node

    signal.signal(signal.SIGTERM, before)
    monkeypatch.setattr(core, "bind", lambda *given: None)  # It needs Launchpad.
    monkeypatch.setattr(interrupts, "end_with_input", lambda: None)
    return node


def started(node: types.ModuleType, folder: pathlib.Path, label: str, monkeypatch, run) -> int:
    """The exit code of a node's command, with a function in the place of the node's work."""
    flags = JOB.command(folder)[1:]
    monkeypatch.setenv(core.ENTERED, core.entered(spread(LIGHT, flags).environment[label]))
    monkeypatch.setattr(core, "run", run)
    return node.main([str(LIGHT), "--label", label, "--hosts", "{label}-{index}", "--", *flags])


@pytest.mark.parametrize(("code", "exit_code", "done"), [(0, 0, True), (3, 0, True), (1, 1, False), (143, 143, False)])
def test_how_a_run_of_nodes_apart_has_ended_is_known_afterwards(node, tmp_path, monkeypatch, code, exit_code, done):
    """A monitor that comes back is another start, whose end counts."""
    states: list[str] = []

    def run(*given: object) -> int:
        states.append(state_of(tmp_path, journal.lines(tmp_path)))
        return code

    for number in (1, 2):
        assert started(node, tmp_path, "monitor", monkeypatch, run) == exit_code
        assert state_of(tmp_path, journal.lines(tmp_path)) == "ended" and journal.last_code(tmp_path) == code
        assert is_done(tmp_path, JOB) == done
        told = [journal.parse(line).message for line in journal.lines(tmp_path)]
        assert sum(line.startswith("started: each node by a command of its own, process ") for line in told) == number
    assert states == ["running"] * 2


def test_what_the_monitor_lacks_is_in_the_log(node, tmp_path, monkeypatch, capsys):
    def run(*given: object) -> int:
        raise OSError("port 20000 for monitor is in use here")

    assert started(node, tmp_path, "monitor", monkeypatch, run) == 1
    assert journal.end_of(journal.last_start(tmp_path)) == "port 20000 for monitor is in use here"
    assert journal.last_code(tmp_path) == 1
    assert capsys.readouterr().err == "error: port 20000 for monitor is in use here\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 1),
        (PermissionError(errno.EACCES, "no"), 2),
        (BadInput("no"), 2),
        (ValueError("no"), 2),
    ],
)
def test_bad_input_has_a_code_of_its_own_and_what_may_pass_has_another(node, tmp_path, monkeypatch, error, code):
    """Where a platform starts nodes again, code 2 ends the whole run."""

    def bind(*given: object) -> None:
        raise error

    monkeypatch.setattr(core, "bind", bind)
    assert started(node, tmp_path, "actor", monkeypatch, lambda *given: 0) == code


def test_a_program_that_ends_can_not_be_joined_though_its_monitor_still_waits(node, tmp_path, monkeypatch):
    seen: list[bool] = []

    def run(*given) -> int:
        monitor, over = Monitor("monitor", str(tmp_path), StopRule()), threading.Event()
        with core._shown(monitor, lambda: (given[-1](), over.set())):
            seen.append((tmp_path / FILE).exists() and not over.is_set())
            monitor.fail_program("learner died")
            seen.append(over.wait(DEADLINE_S) and not (tmp_path / FILE).exists())
        return 1

    assert started(node, tmp_path, "monitor", monkeypatch, run) == 1
    assert seen == [True, True]


def test_another_node_writes_nothing_to_the_log(node, tmp_path, monkeypatch):
    assert started(node, tmp_path, "actor", monkeypatch, lambda *given: 0) == 0
    assert not journal.lines(tmp_path) and not (tmp_path / "config.json").exists()
