"""Stacks of a process that are asked for from another."""

from __future__ import annotations

import subprocess
import sys

import pytest

from boonta.programs.wiring.supervision import stacks
from boonta.tests.helpers.deadline import DEADLINE_S

HANGING = """
import os, pathlib, sys, time
from boonta.programs.wiring.supervision import stacks
def hang_here():
    print("hangs", flush=True)
    while True:
        time.sleep(60)
with stacks.offered(pathlib.Path(sys.argv[1])):
    hang_here()
"""


def test_a_process_that_hangs_tells_where_each_time_it_is_asked(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HANGING, str(tmp_path)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"hangs\n"
            for _ in range(2):
                told = stacks.ask(tmp_path, process.pid, wait_s=60.0)
                assert told.count("in hang_here") == 1 and "most recent call first" in told
            assert process.poll() is None
        finally:
            process.kill()
    with pytest.raises(LookupError, match="it has ended"):
        stacks.ask(tmp_path, process.pid)


HANDLES = "import signal; signal.signal(signal.SIGUSR2, lambda *_: exit(3)); "
OPENS = "import os, sys; file = open(f'{sys.argv[1]}/stacks-{os.getpid()}.txt', 'a'); "


@pytest.mark.parametrize("does", ["", HANDLES, OPENS])
def test_a_process_that_offers_none_is_left_alone(tmp_path, does):
    """Also where a process that has ended had its number, and has left its file there."""
    command = [sys.executable, "-c", does + "print(flush=True); input()", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"\n"
        (tmp_path / f"stacks-{process.pid}.txt").touch()
        with pytest.raises(LookupError, match="offers no stacks"):
            stacks.ask(tmp_path, process.pid)
        process.communicate(b"\n", timeout=DEADLINE_S)
    assert process.returncode == 0
