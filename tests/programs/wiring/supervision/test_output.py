"""What a program prints while nobody reads it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

from boonta.programs.wiring.supervision import output, supervise
from boonta.programs.wiring.supervision.interrupts import Signals
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.workers import Monitor, Worker


@contextlib.contextmanager
def pipe() -> Iterator[int]:
    """The end for reading of a pipe that both standard streams go to meanwhile; pytest would undo a fixture's."""
    reading, writing = os.pipe()
    with open(writing, "w", encoding="utf-8") as stream:
        try:
            with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
                yield reading
        finally:
            os.close(reading)  # Where a test has failed, this ends a write that would never end.


def fill(descriptor: int) -> int:
    """Fills a pipe; returns the number of bytes that it took."""
    os.set_blocking(descriptor, False)
    size = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            size += os.write(descriptor, b"." * 4096)
    os.set_blocking(descriptor, True)
    return size


def read(descriptor: int, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += os.read(descriptor, size - len(found))
    return found


def in_time(work) -> None:
    """Does work in a thread, so that a test fails where the work would never end."""
    done = threading.Event()
    threading.Thread(target=lambda: (work(), done.set()), daemon=True).start()
    assert done.wait(DEADLINE_S)


CLOSED = """
import boonta, os, pathlib, subprocess, sys
with open(sys.argv[1], "w") as file:
    print("unread", flush=True)
    print("unread", file=sys.stderr, flush=True)
    subprocess.run(["sh", "-c", "echo unread; echo unread >&2"], check=True)
    print(file.fileno() > 2, sys.stdin.read() == "", sys.stdout.isatty(), file=file)
"""


def test_of_a_process_with_closed_streams_nothing_gets_into_its_files(tmp_path):
    command = [sys.executable, "-c", CLOSED, str(tmp_path / "file")]
    subprocess.run(["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *command], check=True, timeout=DEADLINE_S)
    assert (tmp_path / "file").read_text() == "True True False\n"


def test_what_is_printed_comes_in_order():
    with pipe() as reader, output.unblocked():
        for number in range(3):
            print(number, end=" ")
            print("é", file=sys.stderr)
        assert read(reader, 15).decode() == "0 é\n1 é\n2 é\n"


def test_who_prints_goes_on_while_nobody_reads_and_the_newest_lines_are_kept(monkeypatch):
    monkeypatch.setattr(output, "REST_S", 0.0)

    def work() -> None:
        with output.unblocked():
            for number in range(100):
                print(f"{number:04d}" * 1000)

    rest = b""
    with pipe() as reader:
        size = fill(sys.stdout.fileno())
        assert not output.has_room(sys.stdout)
        in_time(work)
        read(reader, size)
        while not rest.endswith(b"0099\n"):
            rest += os.read(reader, 1 << 16)
        assert output.has_room(sys.stdout)
    assert len(rest) <= output.MOST + 4001


def test_a_stream_that_is_no_file_stays_as_it_is(capsys):
    with output.unblocked():
        print("here")
        assert capsys.readouterr().out == "here\n"


def test_a_reader_that_is_gone_ends_nothing():
    code = (
        "import sys\nfrom boonta.programs.wiring.supervision import output\n"
        "with output.unblocked():\n    print('a')\n    print('b')\nsys.exit(7)"
    )
    closed, writing = os.pipe()
    os.close(closed)
    try:
        assert subprocess.run([sys.executable, "-c", code], stdout=writing, timeout=DEADLINE_S).returncode == 7
    finally:
        os.close(writing)


def test_a_signal_ends_a_program_whose_output_nobody_reads(monkeypatch):
    monkeypatch.setattr(supervise, "POLL_S", 0.0)
    monkeypatch.setattr(output, "REST_S", 0.0)
    signals, codes = Signals(), []
    signals.number = signal.SIGTERM
    workers = [Worker("monitor", polls=3), Worker("learner", polls=2)]
    with pipe() as reader:
        size = fill(sys.stdout.fileno())
        in_time(lambda: codes.append(supervise.stay(workers, Monitor(learner="gone"), signals)))
        assert codes == [128 + signal.SIGTERM]
        read(reader, size)
        assert read(reader, 17) == b"ended by SIGTERM\n"  # The thread that writes is done by then.
