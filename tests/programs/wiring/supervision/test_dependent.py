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


def test_a_command_whose_parent_was_gone_before_never_begins():
    words = [str(os.getppid()) if word == str(os.getpid()) else word for word in dependent.command("echo", "begun")]
    late = subprocess.run(words, capture_output=True, text=True)
    assert (late.returncode, late.stdout) == (128 + signal.SIGTERM, "")
