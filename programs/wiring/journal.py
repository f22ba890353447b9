"""What happens to a run, for people: lines on the terminal, and in a file of the run's folder."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence

FILE = "run.log"
# Of whole runs. DEBUG is for the file alone, INFO a plain line, WARNING what the run survives, ERROR why it has failed.
LOG = logging.getLogger("boonta.run")
PREFIXES = {logging.WARNING: "warning: ", logging.ERROR: "error: "}
STARTED, ENDED = "started: ", "ended with code "  # How the file's lines about a run's start and end begin.
ENDS = ("done: ", "ended by ")  # How the lines begin that say to people why a run ends; errors do, too.


@contextlib.contextmanager
def outliving_terminal() -> Iterator[None]:
    """Goes on where the terminal, or whoever reads the lines, is gone: from then on nothing is shown.

    An exception would end the supervision of the nodes, but not the nodes.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:  # The lines go into a file, and wait until there is room again.
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
        os.close(nowhere)


class _Terminal(logging.Handler):
    """Prints each line to where the standard streams lead at that time: a live table redirects them."""

    def emit(self, record: logging.LogRecord) -> None:
        with outliving_terminal():
            stream = sys.stderr if record.levelno >= logging.ERROR else sys.stdout
            print(PREFIXES.get(record.levelno, "") + record.getMessage(), file=stream, flush=True)


class _File(logging.FileHandler):
    """Appends each line, with its time, to the file. A full disk is no reason to end a run."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):  # The file can't be opened.
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Goes on, since the line can't be written."""
        del record

    def close(self) -> None:
        with contextlib.suppress(OSError):  # What is left can't be written.
            super().close()


@contextlib.contextmanager
def kept_in(folder: pathlib.Path) -> Iterator[None]:
    """Keeps what is logged meanwhile in a run's folder, too."""
    handler = _File(folder / FILE, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    LOG.addHandler(handler)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        handler.close()


def lines(folder: pathlib.Path) -> list[str]:
    """The lines of a run's file, the oldest first.

    Raises:
      OSError: it can't be read.
    """
    return (folder / FILE).read_text(errors="replace").splitlines()


def last_start(folder: pathlib.Path) -> list[str]:
    """The lines of a run since it was started last; none if it never was, or its file can't be read."""
    try:
        log = lines(folder)
    except OSError:
        return []
    starts = [i for i, line in enumerate(log) if f" DEBUG {STARTED}" in line]
    return log[starts[-1] :] if starts else []


def end_of(log: Sequence[str]) -> str | None:
    """What the lines since a run's last start say of how it ended; None if it has not, or was cut off.

    It is the last message that says so to people; empty where only the exit code is there.
    """
    said: str | None = None
    for _, level, message in (line.split(" ", 2) for line in log if line.count(" ") >= 2):
        if level == "ERROR" or (level == "INFO" and message.startswith(ENDS)):
            said = message
        elif level == "DEBUG" and message.startswith(ENDED):
            said = said or ""
    return said


def last_code(folder: pathlib.Path) -> int | None:
    """The exit code with which a run ended last; None if it goes on, was cut off, or never started."""
    _, found, code = (last_start(folder) or [""])[-1].rpartition(f" DEBUG {ENDED}")
    return int(code) if found and code.isdigit() else None


_terminal = _Terminal(logging.INFO)
LOG.addHandler(_terminal)
LOG.setLevel(logging.DEBUG)
LOG.propagate = False  # Libraries configure the root logger as they like.
