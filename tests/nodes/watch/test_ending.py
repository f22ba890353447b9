"""A process ends with its code at once, whatever is left in it."""

from __future__ import annotations

import os
import subprocess
import sys

from boonta.nodes.watch import ending
from boonta.tests.helpers.deadline import DEADLINE_S

LEFT = """
import atexit, importlib.util, sys, threading
spec = importlib.util.spec_from_file_location("ending", sys.argv[1])
ending = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ending)
atexit.register(print, "an exit handler")
threading.Thread(target=threading.Event().wait).start()
print("printed", end="")
ending.end_now(7)
"""

COMMAND = [sys.executable, "-c", LEFT, ending.__file__]
BUFFERED = {**os.environ, "PYTHONUNBUFFERED": ""}


def test_a_thread_that_never_ends_does_not_hold_it_up():
    done = subprocess.run(COMMAND, env=BUFFERED, capture_output=True, text=True, timeout=DEADLINE_S)
    assert (done.returncode, done.stdout) == (7, "printed")


def test_what_must_not_stay_behind_is_removed_first_whatever_fails_at_that():
    added = "ending.at_end.extend([lambda: 1 / 0, lambda: print(' and removed', end='')])\nending.end_now"
    command = [sys.executable, "-c", LEFT.replace("ending.end_now", added), ending.__file__]
    done = subprocess.run(command, env=BUFFERED, capture_output=True, text=True, timeout=DEADLINE_S)
    assert (done.returncode, done.stdout, done.stderr) == (7, "printed and removed", "")


def test_its_code_is_the_same_where_nothing_can_be_printed():
    with open("/dev/full", "w") as full:
        done = subprocess.run(COMMAND, env=BUFFERED, stdout=full, timeout=DEADLINE_S)
    assert done.returncode == 7
