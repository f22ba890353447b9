"""The log of a run, for people: lines on the terminal, and in a file of the run's folder."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import pathlib
import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

FILE = "run.log"
# The logger of whole runs. DEBUG lines go to the file alone, INFO lines are plain, a WARNING is something that the run
# survives, and an ERROR the reason why it failed.
LOG = logging.getLogger("boonta.run")
PREFIXES = {logging.WARNING: "warning: ", logging.ERROR: "error: "}
STARTED, ENDED = "started: ", "ended with code "  # The first words of the lines about a run's start and end.
ENDS = ("done: ", "ended by ")  # The first words of the lines that give the reason of an end; errors give it, too.
_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\S+) ([A-Z]+) (.*)")


@contextlib.contextmanager
def outliving_terminal() -> Iterator[None]:
    """Goes on without output once the terminal, or the process that reads it, is gone.

    An exception would end the supervision of the nodes, but not the nodes.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:  # Output goes to a file on a full disk, where there may be room again later.
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
        os.close(nowhere)


class _Terminal(logging.Handler):
    """Prints each line to the present standard streams, which a live table redirects."""

    def emit(self, record: logging.LogRecord) -> None:
        with outliving_terminal():
            stream = sys.stderr if record.levelno >= logging.ERROR else sys.stdout
            print(PREFIXES.get(record.levelno, "") + record.getMessage(), file=stream, flush=True)


class _File(logging.FileHandler):
    """Appends each line, with its time, to the file; a full disk doesn't end the run."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):  # The file can't be opened.
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Ignores that the line can't be written."""
        del record

    def close(self) -> None:
        with contextlib.suppress(OSError):  # The rest can't be written.
            super().close()


@contextlib.contextmanager
def kept_in(folder: pathlib.Path) -> Iterator[None]:
    """Also writes what is logged within the block to a file in the run's folder."""
    handler = _File(folder / FILE, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    LOG.addHandler(handler)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        handler.close()


def lines(folder: pathlib.Path) -> list[str]:
    """The lines of a run's file, the oldest first; none if it can't be read."""
    try:
        return (folder / FILE).read_text(errors="replace").splitlines()
    except OSError:
        return []


def tail(file: pathlib.Path, most: int) -> bytes:
    """The end of a file that may be long, such as the output of a process.

    Args:
      file: the file.
      most: the greatest number of its bytes.

    Raises:
      OSError: it can't be read.
    """
    with open(file, "rb") as opened:
        opened.seek(max(0, os.fstat(opened.fileno()).st_size - most))
        return opened.read()


class Line(NamedTuple):
    """A line of the file. One that goes on with the message of the line before has neither time nor level."""

    time: str
    level: str
    message: str


def parse(line: str) -> Line:
    """Takes a line of the file apart."""
    found = _LINE.fullmatch(line)
    return Line(*found.groups()) if found else Line("", "", line)


def for_people(line: str) -> str:
    """A line of the file without its level, unless it is a warning or an error."""
    time, level, message = parse(line)
    return f"{time} {message}" if level in ("DEBUG", "INFO") else line


def last_start(folder: pathlib.Path) -> list[str]:
    """The lines of a run since it was started last; none if it never was, or its file can't be read."""
    return since_start(lines(folder))


def since_start(log: Sequence[str]) -> list[str]:
    """Those of a run's lines that belong to its last start; none if they have no start."""
    starts = [i for i, line in enumerate(log) if _begins(parse(line), STARTED)]
    return list(log[starts[-1] :]) if starts else []


def end_of(log: Sequence[str]) -> str | None:
    """What the lines since a run's last start say of how it ended; None if it has not, or was cut off.

    It is the last message that says so to people; empty where only the exit code is there.
    """
    said: str | None = None
    for line in map(parse, log):
        if line.level == "ERROR" or (line.level == "INFO" and line.message.startswith(ENDS)):
            said = line.message
        elif _begins(line, ENDED):
            said = said or ""
    return said


def last_code(folder: pathlib.Path) -> int | None:
    """The exit code with which a run ended last; None if it goes on, was cut off, or never started."""
    last = parse((last_start(folder) or [""])[-1])
    code = last.message.removeprefix(ENDED)
    return int(code) if _begins(last, ENDED) and code.isdigit() else None


def _begins(line: Line, words: str) -> bool:
    """Whether a line is for the file alone, and begins with these words."""
    return line.level == "DEBUG" and line.message.startswith(words)


_terminal = _Terminal(logging.INFO)
LOG.addHandler(_terminal)
LOG.setLevel(logging.DEBUG)
LOG.propagate = False  # The root logger belongs to libraries, which configure it.
