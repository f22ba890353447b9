"""How a command ends that can't do its work: with a line, and the traceback of an error in the user's own code."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import tyro

from boonta.programs.wiring.command_line.integers import INTEGERS
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.journal import LOG
from boonta.programs.wiring.run_folder.provenance import ROOT
from boonta.programs.wiring.shipped import FOLDER

INSTALLED = ("site-packages", "dist-packages")
LASTING = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST}
LASTING |= {errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
MESSAGES = (BadInput, ValueError, OSError, ImportError, FloatingPointError)  # Boonta's own of these are for the user.
STANDARD = pathlib.Path(os.__file__).resolve().parent


def command(function: Callable[..., Any], *errors: type[Exception]) -> None:
    """Runs a tool's function from the command line; what `refusing` names ends it with a message and its code."""
    with refusing(*errors):
        tyro.cli(function, registry=INTEGERS)


@contextlib.contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    """Ends the process with a message and `code_of` the error.

    It does where the error is bad input, a NaN that an environment shows, one of `errors`, or of the user's own code,
    such as an environment; another has a traceback, as it may be a fault of Boonta's.
    """
    expected: tuple[type[Exception], ...] = (BadInput, FloatingPointError, *errors)
    try:
        yield
    except BrokenPipeError:  # An OSError, but no bad input: the console script ends quietly.
        raise
    except Exception as error:
        if not isinstance(error, expected) and not is_users(error):
            raise
        tell(error)
        sys.exit(code_of(error))


def require_at_least(least: int, **flags: int) -> None:
    """Raises `BadInput` if one of these flags, by its name in Python, has a lower number."""
    for name, value in flags.items():
        if value < least:
            raise BadInput(f"--{name.replace('_', '-')} is {value}; it must be at least {least}")


@contextlib.contextmanager
def writing(out: pathlib.Path) -> Iterator[None]:
    """Raises `BadInput` where the file system refuses for good what is written to a tool's `--out` meanwhile."""
    try:
        yield
    except OSError as error:
        if code_of(error) == 1:
            raise
        raise BadInput(f"--out {out} can't be written: {error}") from error


def tell(error: Exception, of: object = "") -> None:
    """Logs an error, to standard error, as a line.

    Its traceback comes first where it is of the user's own code, or of a kind that has no message for the user.

    Args:
      error: the error.
      of: what it concerns, such as a run's folder, for the line to begin with.
    """
    is_message = isinstance(error, MESSAGES)
    if not is_message or (not isinstance(error, BadInput) and is_users(error)):
        traceback.print_exception(type(error), error, error.__traceback__)
    place = f"{of}: " if of else ""
    LOG.error("%s", f"{place}{error}" if is_message else f"{place}{type(error).__name__}: {error}")


def code_of(error: Exception) -> int:
    """The exit code of a process that this error ends: 2 for bad input, 1 for what may pass, or fails as a node does.

    Platforms try a run again that has ended with 1: by then a disk may have room, or a host answer. A missing folder
    stays missing.
    """
    if isinstance(error, OSError):
        return 2 if error.errno in LASTING else 1
    return 2 if isinstance(error, BadInput | ValueError | ImportError) else 1


def is_users(error: BaseException) -> bool:
    """Whether the user's code raised an error, or called the library that did; boonta's errors are for the user."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    paths = [pathlib.Path(file).resolve() for file in files if not file.startswith("<")]  # As in "<frozen importlib>".
    own = [path for path in paths if not _is_library(path)]
    return bool(own) and _is_program(own[-1])


def _is_library(file: pathlib.Path) -> bool:
    """Whether a file is part of an installed package, or of the standard library; boonta may be installed, too."""
    if file.is_relative_to(ROOT):
        file = file.relative_to(ROOT)
    return file.is_relative_to(STANDARD) or any(part in INSTALLED for part in file.parts)


def _is_program(file: pathlib.Path) -> bool:
    return file.parent == FOLDER or not file.is_relative_to(ROOT)
