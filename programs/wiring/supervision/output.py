"""Output that nobody waits for: a terminal that Ctrl-S has stopped, or a pipe that nobody reads, blocks who writes.

Or there is none at all: a shell's `>&-`, and some services, start a process with closed streams.
"""

from __future__ import annotations

import collections
import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from boonta.programs.wiring.run_folder.journal import outliving_terminal

# Bytes that wait to be read. The oldest are dropped first, since the run's log has what matters of them.
MOST = 1 << 16
STDERR = 2
REST_S = 5.0  # Time at the end for what still waits to be read.


def open_closed() -> None:
    """Opens the null device in the place of standard streams that are closed; Python has None for these.

    Otherwise a file or a connection that is opened later could get the descriptor of one, and so what libraries print.
    """
    missing = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    if missing:
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STDERR:
            os.set_inheritable(descriptor, True)
        os.close(descriptor)
    for name in missing:
        setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115  # It stays open.


def has_room(stream: Any) -> bool:
    """Whether a write to a stream wouldn't block now; true for one that can't be asked."""
    try:
        return bool(select.select([], [stream], [], 0.0)[1])
    except (OSError, TypeError, ValueError):  # It is closed, missing, or no file.
        return True


@contextlib.contextmanager
def unblocked() -> Iterator[None]:
    """Writes what this process prints from a thread of its own, so that who prints meanwhile goes on at once.

    A stopped terminal would stop the supervision of a program, too: nodes that die would not start again, and a signal
    would not end it. Streams that are no files, such as a test's, stay as they are.
    """
    writer = _Writer()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Unblocked(stream, writer) if _is_file(stream) else stream for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        writer.finish()


def _is_file(stream: Any) -> bool:
    try:
        stream.flush()  # What it has comes before what the thread writes.
        return isinstance(stream.fileno(), int)
    except (AttributeError, OSError, ValueError):
        return False


class _Unblocked:
    """A text stream whose writes never block; in all else it is the stream that it stands for."""

    def __init__(self, stream: Any, writer: _Writer):
        self._stream, self._writer = stream, writer

    def write(self, text: str) -> int:
        self._writer.put(self._stream.fileno(), text.encode(self._stream.encoding, "backslashreplace"))
        return len(text)

    def writelines(self, lines: Any) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        """Does nothing: the thread writes as soon as there is room."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Writer:
    """Writes what it gets, in order, to file descriptors, from a thread that nothing waits for.

    It writes without the streams' buffers: Python's exit would wait for the lock of one in which the thread is blocked.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: collections.deque[tuple[int, bytes]] = collections.deque()
        self._size = 0  # Bytes that wait, or are being written.
        self._writing = self._over = False
        threading.Thread(target=self._write_all, name="output", daemon=True).start()

    def put(self, descriptor: int, content: bytes) -> None:
        with self._changed:
            self._waiting.append((descriptor, content))
            self._size += len(content)
            while len(self._waiting) > 1 and self._size > MOST:
                self._size -= len(self._waiting.popleft()[1])
            self._changed.notify_all()

    def finish(self) -> None:
        """Returns when all is written, or isn't read in time."""
        end = time.monotonic() + REST_S
        with self._changed:
            self._over = True
            self._changed.notify_all()
            while (self._waiting or self._writing) and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)

    def _write_all(self) -> None:
        content = b""
        while True:
            with self._changed:
                self._size -= len(content)
                self._writing = False
                self._changed.notify_all()
                while not self._waiting:
                    if self._over:
                        return
                    self._changed.wait()
                descriptor, content = self._waiting.popleft()
                while self._waiting and self._waiting[0][0] == descriptor:
                    content += self._waiting.popleft()[1]
                self._writing = True
            with outliving_terminal():
                _write(descriptor, content)


def _write(descriptor: int, content: bytes) -> None:
    """Writes all of it, also where another process has made the descriptor one that doesn't block."""
    while content:
        try:
            content = content[os.write(descriptor, content) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
