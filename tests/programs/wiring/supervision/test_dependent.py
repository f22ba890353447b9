"""Processes that end with the one that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from boonta.programs.wiring.supervision import dependent
from boonta.tests.helpers.deadline import DEADLINE_S

CHILD = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(print('asked'))); print('up', flush=True)"
PARENT = f"""
import subprocess, sys, time
from boonta.programs.wiring.supervision import dependent

subprocess.Popen(dependent.command(sys.executable, "-c", "{CHILD}; time.sleep(600)"))
time.sleep(600)
"""


def test_a_command_is_asked_to_end_once_its_parent_is_killed():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == "up\n"
        parent.kill()
        # The pipe is closed only once the child has ended, too.
        assert parent.communicate(timeout=DEADLINE_S)[0] == "asked\n"


def test_a_command_holds_its_file_until_it_has_ended_and_its_own_children_do_not(tmp_path):
    file = tmp_path / "held"
    assert dependent.holder(file) is None
    code = (
        "import subprocess; child = subprocess.Popen(['sleep', '600'], close_fds=False); print(child.pid, flush=True); "
    )
    words = dependent.command(sys.executable, "-c", code + "input()", held=str(file))
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            assert dependent.holder(file) == dependent.holder(file) == process.pid  # A look takes nothing.
            process.stdin.write("\n")
            process.stdin.close()
            process.wait(DEADLINE_S)
            assert dependent.holder(file) is None
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_command_begins_where_its_file_can_not_be_held(tmp_path):
    words = dependent.command("echo", "begun", held=str(tmp_path / "gone" / "held"))
    assert subprocess.run(words, capture_output=True, text=True).stdout == "begun\n"


def test_a_command_whose_parent_was_gone_before_never_begins():
    words = [str(os.getppid()) if word == str(os.getpid()) else word for word in dependent.command("echo", "begun")]
    late = subprocess.run(words, capture_output=True, text=True)
    assert (late.returncode, late.stdout) == (128 + signal.SIGTERM, "")
