"""The queue of a sweep: several jobs at once, what fails among them, and how a sweep ends and goes on."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import types

import pytest

from boonta.programs.experiments.plan import Job
from boonta.programs.experiments.progress import failures, summary
from boonta.programs.experiments.scheduler import DONE, END_S, FAILED, LEFT, RUNNING, Scheduler, State
from boonta.programs.experiments.slots import Slot
from boonta.programs.experiments.spec import Entry
from boonta.programs.wiring.run_folder.folder import lock

pytestmark = pytest.mark.once
STAND_IN = str(pathlib.Path(__file__).resolve().parents[2] / "helpers" / "stand_in.py")
CORES = sorted(os.sched_getaffinity(0))
DEADLINE_S = 60.0


def job(name: str, act: str = "done", **flags) -> Job:
    return Job(name, (Entry(name, STAND_IN, "", 0, {"act": act, **flags}, {}),))


def slots(number: int = 1) -> list[Slot]:
    return [Slot(i, (CORES[i % len(CORES)],), {}) for i in range(number)]


def run(folder: pathlib.Path, *jobs: Job, retries: int = 1, number: int = 1) -> tuple[int, dict[str, State]]:
    scheduler = Scheduler(folder, jobs, slots(number), retries)
    code = scheduler.run()
    return code, {state.job.name: state for state in scheduler.states}


def starts(folder: pathlib.Path, name: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return (folder / name / "starts").read_text().splitlines()
    return []


def await_until(there) -> None:
    end = time.monotonic() + DEADLINE_S
    while not there():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_run_whose_learning_has_collapsed_has_ended_by_its_stop_rule(tmp_path):
    for _ in range(2):
        code, states = run(tmp_path, job("one", "collapses"))
        assert code == 0 and states["one"].stage == DONE
    assert len(starts(tmp_path, "one")) == 1


def test_all_jobs_are_done_and_not_done_again(tmp_path):
    jobs = [job(f"run{i}") for i in range(4)]
    assert run(tmp_path, *jobs)[0] == 0
    code, states = run(tmp_path, *jobs, job("later"))
    assert code == 0 and {state.stage for state in states.values()} == {DONE}
    assert [len(starts(tmp_path, name)) for name in states] == [1] * 5
    assert summary(list(states.values())) == "5 runs: 5 done, 0 running, 0 failed, 0 left"


def test_a_job_that_cannot_be_started_gives_back_its_slot_and_its_file(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("boonta.programs.experiments.scheduler.dependent.command", lambda *words: ["/nowhere"])
        code, states = run(tmp_path, job("one"), job("two"))
    assert code == 1 and [state.cause[:16] for state in states.values()] == ["can't be started"] * 2
    assert all(state.slot is None and state.output is None for state in states.values())
    assert run(tmp_path, job("one"), job("two"))[0] == 0


@pytest.fixture
def scarce(monkeypatch):
    """The scheduler's clock, the attempts to start a process so far, and a patch by which all of them fail."""
    now, attempts = [0.0], []
    module = "boonta.programs.experiments.scheduler"
    with monkeypatch.context() as patched:
        patched.setattr(f"{module}.time", types.SimpleNamespace(monotonic=lambda: now[0]))

        def fail(number: int) -> None:
            def start(*given, **settings) -> None:
                attempts.append(now[0])
                raise OSError(number, os.strerror(number))

            patched.setattr(f"{module}.subprocess.Popen", start)

        yield now, attempts, fail, patched


@pytest.mark.parametrize("lack", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT])
def test_for_want_of_what_may_be_there_again_soon_no_job_fails(tmp_path, scarce, lack):
    now, attempts, fail, patched = scarce
    fail(lack)
    scheduler = Scheduler(tmp_path, [job("one"), job("two")], slots(2), 0)
    for now[0] in (0.0, 0.5, 1.0, 1.5, 2.0, 3.5, 4.0):
        scheduler._fill()
    assert attempts == [0.0, 1.0, 2.0, 4.0]
    assert [state.stage for state in scheduler.states] == [LEFT] * 2
    assert scheduler.states[0].cause == f"can't be started: [Errno {lack}] {os.strerror(lack)}"
    assert all(state.slot is None and state.output is None for state in scheduler.states)
    patched.undo()
    assert scheduler.run() == 0
    assert [(state.stage, state.cause, len(starts(tmp_path, state.job.name))) for state in scheduler.states] == [
        (DONE, "", 1)
    ] * 2


def test_after_minutes_without_a_job_fails_and_the_next_one_has_as_many(tmp_path, scarce):
    now, attempts, fail, _ = scarce
    fail(errno.EAGAIN)
    scheduler = Scheduler(tmp_path, [job("one"), job("two")], slots(2), 0)
    failed_at = {}
    while len(failed_at) < 2:
        scheduler._fill()
        failed_at |= {s.job.name: now[0] for s in scheduler.states if s.stage == FAILED and s.job.name not in failed_at}
        now[0] += 1.0
    assert failed_at["one"] >= 300.0 and failed_at["two"] - failed_at["one"] >= 300.0
    assert len(attempts) < 30


def test_a_job_whose_stop_rule_was_raised_goes_on(tmp_path):
    run(tmp_path, job("run", **{"stop.updates": 5}))
    run(tmp_path, job("run", **{"stop.updates": 9}))
    assert len(starts(tmp_path, "run")) == 2


def test_a_failing_job_is_tried_again_and_named_and_does_not_stop_the_rest(tmp_path):
    code, states = run(tmp_path, job("bad", "fails"), job("killed", "killed"), job("lucky", "fails-once"), job("good"))
    assert code == 1
    assert {name: (state.stage, state.failures) for name, state in states.items()} == {
        "bad": (FAILED, 2), "killed": (FAILED, 2), "lucky": (DONE, 1), "good": (DONE, 0)
    }  # fmt: skip
    assert states["bad"].cause == "learner failed while updating: no luck"
    assert states["killed"].cause == "was killed by SIGKILL"
    reasons = failures(tmp_path, list(states.values()))
    assert reasons[0] == f"bad failed: learner failed while updating: no luck (see {tmp_path}/bad/output.log)"
    assert summary(list(states.values())) == "4 runs: 2 done, 0 running, 2 failed, 0 left"


def test_a_command_line_that_can_not_work_is_not_tried_again(tmp_path):
    code, states = run(tmp_path, job("bad", "refuses"))
    assert code == 1 and states["bad"].cause == "--act can't be" and len(starts(tmp_path, "bad")) == 1


def test_jobs_run_at_once_each_on_its_slots_cores(tmp_path):
    both = [job("one", "waits"), job("two", "waits")]
    scheduler = Scheduler(tmp_path, both, slots(2), 0)

    def let_go():
        await_until(lambda: starts(tmp_path, "one") and starts(tmp_path, "two"))
        for name in ("one", "two"):
            (tmp_path / name / "go").touch()

    helper = threading.Thread(target=let_go)
    helper.start()
    assert scheduler.run() == 0
    helper.join()
    for name, slot in zip(("one", "two"), slots(2)):
        (start,) = starts(tmp_path, name)
        assert start.endswith(f" {list(slot.cores)}")


def test_a_folder_in_use_is_waited_for(tmp_path):
    """The runs of a sweep that was killed save, and end by themselves."""
    with lock(tmp_path / "run"):
        scheduler = Scheduler(tmp_path, [job("run"), job("other")], slots(), 0)
        scheduler._fill()
        assert {s.job.name: s.stage for s in scheduler.states} == {"run": LEFT, "other": "running"}
        assert scheduler.states[0].cause == "its folder is in use by another process"
    assert scheduler.run() == 0
    assert len(starts(tmp_path, "run")) == 1


def test_a_folder_is_waited_for_as_long_after_each_failure(tmp_path):
    """The nodes of a launcher that was killed save, too, however long the sweep has gone on."""
    scheduler = Scheduler(tmp_path, [job("run")], slots(), 1)
    (state,) = scheduler.states
    scheduler._began -= 2 * END_S
    scheduler._left.remove(state)
    (tmp_path / "run").mkdir()
    scheduler._fail(state, -signal.SIGKILL)
    with lock(tmp_path / "run"):
        scheduler._fill()
    assert (state.stage, state.failures) == (LEFT, 1)
    assert scheduler.run() == 0


@pytest.mark.parametrize("code", [129, 130, 143, -signal.SIGINT])
@pytest.mark.parametrize("asked", [True, False])
def test_a_job_that_a_signal_ends_is_left_if_the_sweep_has_asked_it_to_end(tmp_path, code, asked):
    scheduler = Scheduler(tmp_path, [job("run")], slots(), 0)
    (state,) = scheduler.states
    state.stage, state.slot = RUNNING, scheduler._free.popleft()
    state.process = types.SimpleNamespace(poll=lambda: code)
    scheduler._asked = float(asked)
    scheduler._tend(state)
    assert state.stage == (LEFT if asked else FAILED)


MAIN = """
import pathlib, sys
from boonta.tests.programs.experiments import test_scheduler as tests
folder = pathlib.Path(sys.argv[1])
jobs = [tests.job("first"), tests.job("second", "waits"), tests.job("third")]
sys.exit(tests.Scheduler(folder, jobs, tests.slots(), 1).run())
"""


@pytest.fixture
def sweep(tmp_path):
    """A function that starts a sweep of three jobs, of which the second waits."""
    started = []

    def start() -> subprocess.Popen:
        started.append(subprocess.Popen([sys.executable, "-c", MAIN, str(tmp_path)]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_after_a_signal_the_running_jobs_save_and_the_next_start_goes_on(tmp_path, sweep, number, code):
    process = sweep()
    await_until(lambda: starts(tmp_path, "second"))
    process.send_signal(number)
    assert process.wait(DEADLINE_S) == code
    assert (tmp_path / "second" / "saved").exists() and not starts(tmp_path, "third")
    (tmp_path / "second" / "go").touch()
    assert sweep().wait(DEADLINE_S) == 0
    assert [len(starts(tmp_path, name)) for name in ("first", "second", "third")] == [1, 2, 1]


def test_when_the_sweep_is_killed_its_jobs_save_and_the_next_start_goes_on(tmp_path, sweep):
    process = sweep()
    await_until(lambda: starts(tmp_path, "second"))
    process.kill()
    await_until(lambda: (tmp_path / "second" / "saved").exists())
    (tmp_path / "second" / "go").touch()
    assert sweep().wait(DEADLINE_S) == 0
    assert [len(starts(tmp_path, name)) for name in ("first", "second", "third")] == [1, 2, 1]
