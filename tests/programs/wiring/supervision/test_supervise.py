"""The program's result, from the monitor's last status and the ends of the workers."""

from __future__ import annotations

import errno
import itertools
import os
import re
import signal
from concurrent import futures

import pytest

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
from boonta.nodes.hosts.agreement import LOST  # noqa: E402
from boonta.programs.wiring.supervision import supervise, workers  # noqa: E402
from boonta.programs.wiring.supervision.interrupts import Signals  # noqa: E402
from boonta.programs.wiring.supervision.restarts import Restarts  # noqa: E402
from boonta.tests.helpers.workers import Monitor, Worker  # noqa: E402


class NoMonitor:
    def __getattr__(self, name: str):
        raise ConnectionError("nobody there")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(supervise, "POLL_S", 0.0)


def ending(capsys, monitor, *workers, caught: int = 0, restarts: int = 0, first=None) -> tuple[int, str]:
    """The exit code, and what was printed."""
    policies = {worker.name: Restarts(number=restarts, backoff_s=0.0) for worker in workers}
    with supervise.View() as view:
        everybody = [first or Worker("monitor", polls=3), *workers]
        supervisor = supervise._Supervisor(everybody, monitor, view, Signals(), policies, lambda: None)
        supervisor._signals.number = caught
        supervisor.watch()
    code = supervisor.report()
    output = capsys.readouterr()
    return code, output.err.strip() or output.out.strip()


def test_a_stop_rule(capsys):
    monitor = Monitor("updates reached 5", learner="gone")
    assert ending(capsys, monitor, Worker("learner")) == (0, "done: updates reached 5")
    assert monitor.expected == ["learner"]


def test_a_failure_after_the_end_was_asked_for(capsys):
    monitor = Monitor("updates reached 5", "learner failed while saving a checkpoint: OSError", learner="gone")
    message = "error: learner failed while saving a checkpoint: OSError"
    assert ending(capsys, monitor, Worker("learner", death="exited with code 1")) == (1, message)
    assert ending(capsys, monitor, Worker("learner"), caught=signal.SIGTERM) == (1, message)


def test_a_death_after_the_end_was_asked_for(capsys):
    monitor = Monitor("updates reached 5", learner="saving a checkpoint")
    message = "error: learner was killed by SIGKILL while saving a checkpoint"
    assert ending(capsys, monitor, Worker("learner", death="was killed by SIGKILL")) == (1, message)


@pytest.mark.parametrize(("caught", "code"), [(signal.SIGTERM, 0), (0, 1)])
def test_a_signal_to_all_processes_of_a_program_that_is_done_changes_nothing(capsys, caught, code):
    monitor = Monitor("updates reached 5", learner="gone")
    killed = Worker("monitor", polls=3, death="was killed by SIGTERM")
    assert ending(capsys, monitor, Worker("learner"), caught=caught, first=killed)[0] == code


def test_an_abort_after_the_goodbye_is_no_failure(capsys):
    monitor = Monitor("updates reached 5", learner="gone")
    learner = Worker("learner", death="was killed by SIGABRT")
    assert ending(capsys, monitor, learner) == (0, "done: updates reached 5")


def test_ctrl_c_may_end_a_node_that_is_still_starting(capsys):
    evaluator = Worker("evaluator", death="was killed by SIGINT")
    assert ending(capsys, Monitor(), evaluator, caught=signal.SIGINT) == (130, "ended by SIGINT")
    code, message = ending(capsys, Monitor(), evaluator)
    assert (code, message) == (1, "error: evaluator was killed by SIGINT while starting")


def test_a_node_that_does_not_end_in_time_is_killed_and_named(capsys, monkeypatch):
    monkeypatch.setattr(supervise, "GRACE_S", 0.0)
    monitor = Monitor(learner="saving a checkpoint", **{"actor/0": "starting"})
    late = [Worker("learner", polls=10**9), Worker("actor/0", polls=10**9)]
    code, message = ending(capsys, monitor, *late, caught=signal.SIGTERM)
    assert (code, message) == (1, "error: learner (saving a checkpoint) did not end within 0 s")
    assert all(worker.killed for worker in late)


def test_a_node_that_has_not_come_to_its_work_in_time_is_killed_without_a_word(capsys, monkeypatch):
    monkeypatch.setattr(supervise, "GRACE_S", 0.0)
    learner = Worker("learner", polls=10**9)
    assert ending(capsys, Monitor(learner="restoring"), learner, caught=signal.SIGINT) == (130, "ended by SIGINT")
    assert learner.killed


def test_a_node_that_keeps_nothing_may_be_late(capsys, monkeypatch):
    monkeypatch.setattr(supervise, "GRACE_S", 0.0)
    actor = Worker("actor/0", polls=10**9)
    monitor = Monitor("updates reached 5", **{"actor/0": "stepping environments"})
    words = "warning: actor/0 (stepping environments) did not end within 0 s; nothing is lost by that"
    assert ending(capsys, monitor, actor) == (0, f"{words}\ndone: updates reached 5")
    assert actor.killed


def test_the_end_waits_for_a_node_that_saves_and_says_so(capsys, monkeypatch):
    monkeypatch.setattr(supervise, "GRACE_S", 1e-6)  # Of 0 nothing would be left to cover the rounding of the clock.
    replay = Worker("replay", polls=50)
    monitor = Monitor(replay="saving the tables", saving=["replay"])
    code, message = ending(capsys, monitor, replay, caught=signal.SIGTERM)
    assert (code, message) == (143, "the end waits for replay to save, at most 600 s\nended by SIGTERM")
    assert not replay.killed


def test_threads_have_longer_to_end(capsys, monkeypatch):
    monkeypatch.setattr(supervise, "GRACE_S", 0.0)
    monkeypatch.setattr(supervise, "THREADS_GRACE_S", 0.2)
    thread = workers.Thread("learner", futures.Future())
    thread.pid = 1  # As in the monitor's status.
    code, message = ending(capsys, Monitor(learner="saving a checkpoint"), thread, caught=signal.SIGTERM)
    assert (code, message) == (1, "error: learner (saving a checkpoint) did not end within 0.2 s")


def test_a_monitor_that_does_not_answer_is_named(capsys, monkeypatch):
    monkeypatch.setattr(supervise, "START_S", 0.0)
    code, message = ending(capsys, NoMonitor(), Worker("learner", polls=3))
    assert code == 1 and re.fullmatch(
        r"error: monitor has not answered for \d+ s: ConnectionError\('nobody there'\)", message
    )


def test_the_own_error_of_a_monitor_is_named(capsys, monkeypatch):
    monkeypatch.setattr(supervise, "START_S", 0.0)
    broken = Monitor()
    monkeypatch.setattr(broken, "status", lambda: {}["a bug in the monitor"])
    code, message = ending(capsys, broken, Worker("learner", polls=3))
    assert code == 1 and message.endswith(" s: KeyError('a bug in the monitor')")


def test_a_dead_worker_is_started_again_and_named(capsys):
    learner = Worker("learner", death="was killed by SIGKILL")
    supervised(Monitor("", learner="updating"), learner, restarts=1)
    assert learner.pid == 2
    assert "warning: learner was killed by SIGKILL while updating; it starts again in 0 s" in capsys.readouterr().out


def test_a_worker_that_can_not_be_started_has_died_once_more(capsys, monkeypatch):
    learner, restart, full = Worker("learner", death="was killed by SIGKILL"), Worker.start_again, [True]

    def start_again(worker: Worker) -> None:
        if full.pop() if full else False:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        restart(worker)

    monkeypatch.setattr(Worker, "start_again", start_again)
    supervisor = supervised(Monitor("", learner="updating"), learner, restarts=2)
    assert learner.pid == 2
    assert f"learner could not be started: [Errno {errno.EAGAIN}]" in capsys.readouterr().out
    full.append(True)
    supervisor._start_again(learner)
    assert supervisor.report() == 1
    message = "it has been started again 2 times within 600 s. Before that it was killed by SIGKILL"
    assert message in capsys.readouterr().err


def supervised(monitor: Monitor, *workers, restarts: int) -> supervise._Supervisor:
    """The supervisor of a program whose monitor lives on, after it has looked a few times."""
    policies = {worker.name: Restarts(number=restarts, backoff_s=0.0) for worker in workers}
    with supervise.View() as view:
        everybody = [Worker("monitor", polls=10**9), *workers]
        supervisor = supervise._Supervisor(everybody, monitor, view, Signals(), policies, lambda: None)
        for _ in range(5):
            supervisor._refresh()
            supervisor._tend_all()
    return supervisor


@pytest.mark.parametrize("restarts", [0, 1])
def test_workers_that_die_all_at_once_start_again_if_they_may(capsys, restarts):
    everybody = [Worker(name, death="was killed by SIGKILL") for name in ("monitor", "actor/0", "learner")]
    policies = {worker.name: Restarts(number=restarts, backoff_s=0.0) for worker in everybody}
    with supervise.View() as view:
        supervisor = supervise._Supervisor(everybody, NoMonitor(), view, Signals(), policies, lambda: None)
        supervisor.watch()
    assert [worker.pid for worker in everybody] == [1 + restarts] * 3
    printed = capsys.readouterr().out
    assert printed.count(" was killed by SIGKILL while starting; it starts again in 0 s") == 3 * restarts
    assert supervisor.report() == 1


def test_a_hung_worker_is_killed_and_started_again(capsys):
    actor = Worker("actor/0", polls=10**9)
    supervised(Monitor(hung={"actor/0": "has been acting for 9 s"}, **{"actor/0": "acting"}), actor, restarts=1)
    assert actor.killed and actor.pid == 2  # The report of the life before says nothing of this one.
    assert "warning: actor/0 has been acting for 9 s; it starts again in 0 s" in capsys.readouterr().out


def test_the_words_of_a_node_that_could_not_start_are_told(capsys):
    evaluator = Worker("evaluator", death="exited with code 1")
    message = "error: evaluator exited with code 1 while starting: ImportError: no"
    assert ending(capsys, Monitor(), evaluator) == (1, message)


def test_what_a_silent_monitor_makes_of_the_end_is_not_the_cause(capsys, monkeypatch):
    """Nodes that the launcher has terminated seem to end by themselves."""
    monkeypatch.setattr(supervise, "SILENT_S", 0.0)
    late = Monitor(failure="learner ended before the program did", learner="gone")
    answers = itertools.chain([Monitor(learner="updating").status()], [None] * 2, itertools.repeat(late.status()))

    def status() -> dict:
        answer = next(answers)
        if answer is None:
            raise TimeoutError
        return answer

    monkeypatch.setattr(late, "status", status)
    code, message = ending(capsys, late, Worker("learner", polls=9))
    assert code == 1 and message.startswith("error: monitor has not answered for ")


def test_a_worker_that_is_stopped_before_its_first_heartbeat_is_replaced(capsys, monkeypatch):
    """Imports may take minutes, so that silence says little."""
    monkeypatch.setattr(supervise, "SILENT_S", 0.0)
    stopped, starting = Worker("actor/0", polls=10**9), Worker("actor/1", polls=10**9)
    stopped.stopped = True
    supervised(Monitor(), stopped, starting, restarts=1)
    assert stopped.killed and stopped.pid == 2 and not starting.killed
    message = r"warning: actor/0 has been stopped for \d+ s, before its first heartbeat; it"
    assert re.search(message, capsys.readouterr().out)


def test_a_worker_that_reported_its_failure_is_not_waited_for(capsys):
    """A thread that compiles may hold its process up for long."""
    failing = Monitor(failures={"actor/0": "actor/0 failed while acting: ValueError: no"}, **{"actor/0": "acting"})
    actor = Worker("actor/0", polls=10**9)
    supervised(failing, actor, restarts=1)
    assert actor.pid == 2
    assert "warning: actor/0 failed while acting: ValueError: no; it starts" in capsys.readouterr().out


def test_an_exception_before_any_work_is_not_tried_again(capsys):
    failing = Monitor(failures={"actor/0": "actor/0 failed while starting: ValueError: no"}, **{"actor/0": "starting"})
    supervisor = supervised(failing, Worker("actor/0", death="exited with code 1"), restarts=3)
    assert supervisor.report() == 1
    assert capsys.readouterr().err == "error: actor/0 failed while starting: ValueError: no\n"


@pytest.mark.parametrize("victim", [{"death": "was killed by SIGABRT"}, {}])
def test_workers_that_go_on_together_start_again_together_and_the_first_to_die_is_named(capsys, victim):
    """The other one is found dead as well, killed by JAX, or by its own report; it is a victim."""
    failed = {} if victim else {"learner/0": f"learner/0 failed while stepping: ConnectionError: {LOST}, of learner/1"}
    learners = [Worker("learner/0", **victim), Worker("learner/1", death="was killed by SIGKILL"), Worker("actor/0")]
    for each in learners[:2]:
        each.together = "learner"
    activities = {"learner/0": "updating", "learner/1": "updating", "actor/0": "acting"}
    supervised(Monitor(failures=failed, **activities), *learners, restarts=1)
    assert [each.pid for each in learners] == [2, 2, 1]
    warnings = [line for line in capsys.readouterr().out.splitlines() if "starts again" in line]
    assert warnings == ["warning: learner/1 was killed by SIGKILL while updating; it starts again in 0 s"]


def test_a_back_off_ends_when_the_program_does(capsys):
    learner = Worker("learner", death="was killed by SIGKILL")
    supervisor = supervise._Supervisor(
        [Worker("monitor", polls=3), learner],
        Monitor(learner="updating"),
        supervise.View(),
        Signals(),
        {"learner": Restarts(backoff_s=1e9)},
        lambda: None,
    )
    supervisor._refresh()
    supervisor._tend_all()
    supervisor._signals.number = signal.SIGTERM
    supervisor.watch()
    capsys.readouterr()
    assert (supervisor.report(), capsys.readouterr().out) == (143, "ended by SIGTERM\n")


def test_only_a_stop_rule_ends_well(capsys):
    code, message = ending(capsys, Monitor("the monitor was asked to stop", learner="gone"), Worker("learner"))
    assert (code, message) == (1, "error: the monitor was asked to stop")
