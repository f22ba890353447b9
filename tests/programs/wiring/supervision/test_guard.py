"""The guard of a program of one process, with processes that only live and die."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from boonta.tests.helpers.deadline import DEADLINE_S

HEAD = """
import os, pathlib, signal, sys, time
from boonta.programs.wiring.supervision import guard
from boonta.programs.wiring.supervision.restarts import Restarts

lives = pathlib.Path(sys.argv[1])
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # The tests may run under nohup, and then it would stay ignored.
guard.SILENT_S = 8.0
guard.guard("program", Restarts(number=3, backoff_s=0.0))
with open(lives, "a") as file:
    print(os.getpid(), file=file)
life = len(lives.read_text().splitlines())
"""


def begin(lives: pathlib.Path, code: str, head: str = HEAD) -> subprocess.Popen:
    command = [sys.executable, "-c", head + code, str(lives)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def number_of(lives: pathlib.Path) -> int:
    return len(lives.read_text().splitlines()) if lives.exists() else 0


@pytest.fixture
def lives(tmp_path):
    return tmp_path / "lives"


@pytest.mark.parametrize("code", [0, 2])
def test_a_program_that_is_done_or_refused_is_not_started_again(lives, code):
    process = begin(lives, f"sys.exit({code})")
    assert process.communicate(timeout=DEADLINE_S)[0] == ""
    assert (process.returncode, number_of(lives)) == (code, 1)


def test_a_killed_program_starts_again_and_its_end_counts(lives):
    process = begin(lives, "if life < 3: os.kill(os.getpid(), signal.SIGSEGV)")
    output = process.communicate(timeout=DEADLINE_S)[0]
    assert (process.returncode, number_of(lives)) == (0, 3)
    assert output.count("warning: program was killed by SIGSEGV; it starts again in 0 s") == 2


def test_a_program_with_closed_streams_starts_and_starts_again(lives):
    closed = ["sh", "-c", '"$@" >&- 2>&-', "sh"]
    code = "if life < 2: os.kill(os.getpid(), signal.SIGSEGV)"
    done = subprocess.run([*closed, sys.executable, "-c", HEAD + code, str(lives)], timeout=DEADLINE_S)
    assert (done.returncode, number_of(lives)) == (0, 2)


def test_where_memory_runs_out_the_program_is_killed_before_its_guard(lives):
    process = begin(lives, "for pid in (os.getpid(), os.getppid()): print(open(f'/proc/{pid}/oom_score_adj').read())")
    program, parent = map(int, process.communicate(timeout=DEADLINE_S)[0].split())
    assert program > parent or program == parent in (-1000, 1000)


@pytest.mark.once
def test_a_program_that_shows_no_sign_of_life_is_killed_and_starts_again(lives):
    code = "guard.report(worked=True)\nif life == 1: os.kill(os.getpid(), signal.SIGSTOP)"
    process = begin(lives, code)
    assert (
        "warning: program has shown no sign of life for 8 s; it starts again"
        in process.communicate(timeout=DEADLINE_S)[0]
    )
    assert (process.returncode, number_of(lives)) == (0, 2)


def test_the_same_failure_three_times_in_a_row_ends_it(lives):
    process = begin(lives, "guard.report(worked=True, failure=f'loss {life} is nan', ending=True); sys.exit(1)")
    output = process.communicate(timeout=DEADLINE_S)[0]
    assert (process.returncode, number_of(lives)) == (1, 3)
    assert "error: program failed: loss 3 is nan; it has done so 3 times in a row. Before that it failed: " in output


def test_of_a_long_failure_the_beginning_is_told(lives):
    process = begin(lives, "guard.report(worked=True, failure='x' * 200_000, ending=True); sys.exit(1)")
    output = process.communicate(timeout=DEADLINE_S)[0]
    assert f"warning: program failed: {'x' * 2_000}; it starts again in 0 s" in output


FORKS = """
other = lives.with_suffix(".other")
if life == 1:
    pid = os.fork()
    if pid == 0:
        os.closerange(0, 3)  # The guard's pipe stays open.
        time.sleep(300)
        lives.with_suffix(".late").touch()
        os._exit(0)
    other.write_text(str(pid))
    os.kill(os.getpid(), signal.SIGKILL)
os.kill(int(other.read_text()), signal.SIGKILL)
"""


def test_a_killed_program_starts_again_while_a_process_lives_that_it_has_forked(lives):
    process = begin(lives, FORKS, HEAD.replace("SILENT_S = 8.0", "SILENT_S = guard.START_S = 1e6"))
    output = process.communicate(timeout=DEADLINE_S)[0]
    assert (process.returncode, number_of(lives)) == (0, 2), output
    assert output == "warning: program was killed by SIGKILL; it starts again in 0 s\n"
    assert not lives.with_suffix(".late").exists()  # It has started again before the other one's end.


FAILS = """
import itertools
fork, forks = os.fork, itertools.count(1)
def fails_at_times():
    if next(forks) in {times}:
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return fork()
os.fork = fails_at_times
guard.guard("""
REFUSED = "program could not be started: [Errno 11] Resource temporarily unavailable"


def test_a_program_that_can_not_be_started_for_a_moment_is_started_later(lives):
    code = "print(len(os.listdir('/proc/self/fd')))\nif life == 1: os.kill(os.getpid(), signal.SIGKILL)"
    head = HEAD.replace("guard.guard(", FAILS.format(times={2, 3}))
    first, killed, *refused, again = begin(lives, code, head).communicate(timeout=DEADLINE_S)[0].splitlines()
    assert killed == "warning: program was killed by SIGKILL; it starts again in 0 s"
    assert refused == [f"warning: {REFUSED}; it starts again in 0 s"] * 2
    assert first == again and number_of(lives) == 2  # No pipe is left open.


def test_a_program_that_can_never_be_started_fails_by_name(lives):
    process = begin(lives, "", HEAD.replace("guard.guard(", FAILS.format(times=range(1, 100))))
    output = process.communicate(timeout=DEADLINE_S)[0]
    assert (process.returncode, number_of(lives)) == (1, 0)
    assert f"error: {REFUSED}; it has been started again 3 times within 600 s" in output


def test_a_failure_before_any_work_ends_it_at_once(lives):
    process = begin(lives, "guard.report(worked=False, failure='no such thing', ending=True); sys.exit(1)")
    assert process.communicate(timeout=DEADLINE_S)[0] == ""  # It prints its failure itself.
    assert (process.returncode, number_of(lives)) == (1, 1)


@pytest.mark.once
def test_a_program_that_has_started_jax_is_run_anew_not_forked(lives):
    started = HEAD.replace("guard.SILENT_S", "import jax\njax.devices()\nguard.SILENT_S")
    code = "assert 'BOONTA_GUARD' not in os.environ\nif life == 1: os.kill(os.getpid(), signal.SIGSEGV)"
    process = begin(lives, code + "\njax.numpy.ones(3).sum().block_until_ready()", started)
    output = process.communicate(timeout=DEADLINE_S)[0]
    assert (process.returncode, number_of(lives)) == (0, 2)
    assert output == "warning: program was killed by SIGSEGV; it starts again in 0 s\n"  # No warning about a fork.


@pytest.mark.once
def test_each_life_has_the_time_of_a_start(lives):
    head = HEAD.replace("guard.SILENT_S = 8.0", "guard.SILENT_S, guard.START_S = 0.5, 60.0")
    code = (
        "if life == 2: time.sleep(3)\n"
        "guard.report(worked=True, ending=life == 2)\n"
        "if life == 1: os.kill(os.getpid(), signal.SIGSEGV)"
    )
    process = begin(lives, code, head)
    printed = process.communicate(timeout=DEADLINE_S)[0]
    assert (process.returncode, number_of(lives)) == (0, 2), printed


# Nobody has read the output so far, and it takes no more.
FULL = """
os.set_blocking(1, False)
try:
    while True:
        os.write(1, b"." * 4095 + b"\\n")
except BlockingIOError:
    os.set_blocking(1, True)
"""


@pytest.mark.once
def test_a_program_that_waits_for_its_output_to_be_read_is_not_taken_for_hung(lives):
    head = HEAD.replace("guard.SILENT_S = 8.0", "guard.SILENT_S = 0.5")
    process = begin(lives, f"{FULL}\nguard.report(worked=True)\nif life == 1: time.sleep(4)\n{TELL}", head)
    wait_for(lives.with_suffix(".up"))
    assert number_of(lives) == 1
    process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, number_of(lives)) == (0, 1)


def test_a_program_starts_again_though_nobody_reads_that_it_does(lives):
    process = begin(lives, f"if life == 1:\n{textwrap.indent(FULL, '    ')}    os.kill(os.getpid(), 9)\n{TELL}")
    wait_for(lives.with_suffix(".up"))
    output = process.communicate(timeout=DEADLINE_S)[0]
    assert (process.returncode, number_of(lives)) == (0, 2)
    assert output.endswith("warning: program was killed by SIGKILL; it starts again in 0 s\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_reaches_the_program_and_its_code_comes_back(lives, number):
    process = begin(lives, f"signal.signal({number:d}, lambda *_: sys.exit({128 + number}))\n{TELL}\n{WAIT}")
    wait_for(lives.with_suffix(".up"))
    process.send_signal(number)
    process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, number_of(lives)) == (128 + number, 1)


def test_a_program_that_was_asked_to_end_before_it_could_handle_that_is_not_started_again(lives):
    process = begin(lives, "os.kill(os.getpid(), signal.SIGTERM)")
    process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, number_of(lives)) == (143, 1)


TELL = "pathlib.Path(f'{lives}.up').touch()"  # Python would close what `open` makes, and drop errors in it.
WAIT = "for _ in range(100): time.sleep(1)"


def wait_for(path: pathlib.Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_signal_during_a_back_off_ends_it(lives):
    process = begin(lives, "os.kill(os.getpid(), signal.SIGKILL)", HEAD.replace("backoff_s=0.0", "backoff_s=1000.0"))
    assert process.stdout is not None and "it starts again in 1000 s" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, number_of(lives)) == (130, 1)


def test_without_its_guard_a_program_ends(lives):
    process = begin(lives, f"{TELL}\n{WAIT}")
    wait_for(lives.with_suffix(".up"))
    process.kill()
    assert process.communicate(timeout=DEADLINE_S)[0] == ""  # The pipe is closed only once the program has ended, too.
