"""What happens to a run, for people: lines on the terminal, and in a file of the run's folder."""

from __future__ import annotations

import contextlib
import logging
import pathlib
import sys
from collections.abc import Iterator

FILE = "run.log"
# Of whole runs. DEBUG is for the file alone, INFO a plain line, WARNING what the run survives, ERROR why it has failed.
LOG = logging.getLogger("boonta.run")
PREFIXES = {logging.WARNING: "warning: ", logging.ERROR: "error: "}
STARTED, ENDED = "started: ", "ended with code "  # How the file's lines about a run's start and end begin.


class _Terminal(logging.Handler):
    """Prints each line to where the standard streams lead at that time: a live table redirects them."""

    def emit(self, record: logging.LogRecord) -> None:
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


_terminal = _Terminal(logging.INFO)
LOG.addHandler(_terminal)
LOG.setLevel(logging.DEBUG)
LOG.propagate = False  # Libraries configure the root logger as they like.
