"""Ctrl-C at any moment: while a program imports, launches, and while a library swallows it."""

from __future__ import annotations

import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from boonta.programs.wiring.supervision import interrupts
from boonta.tests.helpers.deadline import DEADLINE_S

ROOT = pathlib.Path(__file__).parents[4]
TINY = str(ROOT / "tests" / "helpers" / "tiny_program.py")
STARTED: list[subprocess.Popen] = []


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    while STARTED:
        if (process := STARTED.pop()).poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def start(*command: str) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    STARTED.append(process)
    return process


def interrupted(process: subprocess.Popen, ready: Callable[[], bool], code: int = 130) -> str:
    """What a process has printed that was interrupted as soon as it was ready."""
    deadline = time.monotonic() + 120
    while not ready():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=DEADLINE_S)[0]
    assert process.returncode == code, output
    assert "Traceback" not in output and "KeyboardInterrupt" not in output
    return output


def has_loaded(process: subprocess.Popen, library: str) -> Callable[[], bool]:
    """A condition: the process has mapped a file with this in its path, so that it is importing."""

    def loaded() -> bool:
        try:
            return library in pathlib.Path(f"/proc/{process.pid}/maps").read_text()
        except OSError:  # It has ended.
            return False

    return loaded


@pytest.mark.parametrize(
    "code",
    [
        "raise KeyboardInterrupt",
        "try:\n  raise KeyboardInterrupt\nexcept KeyboardInterrupt as error:\n  raise ImportError('of C++') from error",
        "try:\n  raise KeyboardInterrupt\nexcept KeyboardInterrupt:\n  raise ImportError('of C++')",
    ],
)
def test_an_interrupt_is_told_in_a_line(code):
    process = start("-c", f"import boonta, atexit\natexit.register(print, 'cleared up')\n{code}")
    assert process.communicate(timeout=DEADLINE_S)[0] == "ended by SIGINT\ncleared up\n"
    assert process.returncode == 130


@pytest.mark.parametrize("pause_s", [0.0, 0.2])
def test_an_interrupt_in_a_callback_is_not_lost(pause_s):
    """A busy machine may pause a process for so long that the signal comes again while the first one is handled."""
    code = f"""
import boonta, signal, threading, time, weakref

def paused(timer, start=threading.Timer.start):
    threading.Timer.start = start
    start(timer)
    time.sleep({pause_s})

class Thing: ...

threading.Timer.start = paused

thing = Thing()
kept = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
del thing
time.sleep(60)
"""
    process = start("-c", code)
    assert process.communicate(timeout=DEADLINE_S)[0] == "ended by SIGINT\n"
    assert process.returncode == 130


def test_an_interrupt_that_an_import_swallows_is_not_lost(tmp_path):
    (tmp_path / "swallows.py").write_text("""
import signal
try:
    signal.raise_signal(signal.SIGINT)
except:
    print("swallowed")
""")
    process = start(
        "-c", f"import boonta, sys, time\nsys.path.append({str(tmp_path)!r})\nimport swallows\ntime.sleep(60)"
    )
    assert process.communicate(timeout=DEADLINE_S)[0] == "swallowed\nended by SIGINT\n"
    assert process.returncode == 130


def test_other_errors_and_interactive_sessions_are_as_they_were():
    process = start("-c", "import boonta\nraise ValueError('wrong')")
    assert process.communicate(timeout=DEADLINE_S)[0].startswith("Traceback (most recent call last):")
    assert process.returncode == 1
    session = "import boonta\nraise KeyboardInterrupt\nprint('going on')\n"
    done = subprocess.run(
        [sys.executable, "-i", "-q"], input=session, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.stdout == "going on\n"


def test_an_interrupt_is_held_back_until_the_next_command_can_handle_it():
    next_command = "import time; print('started'); time.sleep(1); import boonta; print('never'); time.sleep(60)"
    code = f"""
import os, signal, sys
from boonta.programs.wiring.supervision import interrupts
interrupts.hold()
signal.raise_signal(signal.SIGINT)
os.execv(sys.executable, [sys.executable, "-uc", {next_command!r}])
"""
    process = start("-c", code)
    assert process.communicate(timeout=DEADLINE_S)[0] == "started\nended by SIGINT\n"
    assert process.returncode == 130


@pytest.mark.parametrize(("before", "number"), [(signal.SIG_DFL, signal.SIGHUP), (signal.SIG_IGN, 0)])
def test_a_closed_terminal_ends_a_program_unless_that_is_ignored(before, number):
    """As `nohup` does."""
    usual = {each: signal.getsignal(each) for each in interrupts.ENDING}
    try:
        signal.signal(signal.SIGHUP, before)
        signals = interrupts.Signals()
        if before is signal.SIG_DFL:
            assert signal.getsignal(signal.SIGHUP) is not before  # Or else the next line would end the tests.
        signal.raise_signal(signal.SIGHUP)
        assert signals.number == number
    finally:
        for each, handler in usual.items():
            signal.signal(each, handler)


@pytest.mark.parametrize(("variables", "code"), [({interrupts.CONNECTED: "1"}, 143), ({}, 0)])
def test_a_process_ends_with_its_standard_input_where_that_is_asked_for(variables, code):
    script = """
import os, signal, sys, threading, time
from boonta.programs.wiring.supervision import interrupts
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
interrupts.end_with_input()
if threading.active_count() > 1:  # What reads the input.
    assert interrupts.CONNECTED not in os.environ
    while True: time.sleep(0.1)  # A signal just before `signal.pause` would not end that.
"""
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, input=b"a key", env={**os.environ, **variables}, timeout=DEADLINE_S)
    assert process.returncode == code


@pytest.mark.parametrize("library", ["numpy", "jaxlib"])
def test_a_program_that_imports(tmp_path, library):
    process = start(str(ROOT / "programs" / "impala.py"), "--launch", "sebulba", "--workdir", str(tmp_path / "run"))
    assert interrupted(process, has_loaded(process, library)) == "ended by SIGINT\n"
    assert not (tmp_path / "run").exists()


def test_a_tool_that_imports(tmp_path):
    process = start("-m", "boonta", "status", str(tmp_path))
    assert interrupted(process, has_loaded(process, "numpy")) == "ended by SIGINT\n"


@pytest.mark.cluster
def test_nodes_that_import(tmp_path):
    """Ctrl-C reaches them, too; what they were importing is nothing for their logs."""
    process = start(TINY, "--workdir", str(tmp_path))
    output = interrupted(process, lambda: bool(list(tmp_path.glob("logs/*/pids.json"))))
    assert output.endswith("ended by SIGINT\n")
    logs = [path.read_text() for path in tmp_path.glob("logs/*/*/*")]
    assert len(logs) == 6
    assert not [log for log in logs if "Traceback" in log or "KeyboardInterrupt" in log]


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_at_any_moment(tmp_path, seed):
    """From the first import to the last line; before it, Python itself ends by the signal, with a traceback."""
    process = start(TINY, "--workdir", str(tmp_path), "--stop.updates=50")
    loaded, wait_s = has_loaded(process, "numpy"), random.Random(seed).uniform(0, 15)
    deadline = time.monotonic() + 120
    while not loaded() and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(wait_s)
    for _ in range(3):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.3)
    output = process.communicate(timeout=DEADLINE_S)[0]
    assert process.returncode in (0, 130), output
    assert "Traceback" not in output and "KeyboardInterrupt" not in output
    for log in tmp_path.glob("logs/*/*/*"):
        assert "KeyboardInterrupt" not in log.read_text()
