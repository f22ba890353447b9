"""A run's temporary files: in a folder of its own, which no kill leaves behind for good."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

FOLDER = "tmp"
ELSEWHERE = "elsewhere"  # A link in it to a folder that could not be in it.
VARIABLE = "TMPDIR"  # Where Python, TensorFlow and others look for the folder; processes inherit it.


@contextlib.contextmanager
def kept_in(folder: pathlib.Path) -> Iterator[None]:
    """Keeps the temporary files of this process, and of those that it starts meanwhile, in a folder within the run's.

    Launchpad writes each group's nodes into one, and TensorFlow the code that it makes; a process that is killed leaves
    its own behind. All are removed at the end, and at the start, where a launcher was killed before.

    Args:
      folder: the run's folder, which no other process uses.
    """
    own = (folder / FOLDER).absolute()
    before = os.environ.get(VARIABLE)
    _remove(own)
    own.mkdir(mode=0o700)
    os.environ[VARIABLE], tempfile.tempdir = str(own), None
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before
        tempfile.tempdir = None
        _remove(own)


@contextlib.contextmanager
def short(longest: int) -> Iterator[pathlib.Path]:
    """A temporary folder in one whose path has so many bytes at most: the run's, or else the machine's.

    In the latter case the run's has a link to it, by which the next start finds it if this process is killed.
    """
    usual = pathlib.Path(tempfile.gettempdir())
    fits = len(os.fsencode(usual)) <= longest
    with tempfile.TemporaryDirectory(
        prefix="boonta-", dir=usual if fits else "/tmp", ignore_cleanup_errors=True
    ) as own:
        if not fits and usual.name == FOLDER:
            (usual / ELSEWHERE).symlink_to(own)
        yield pathlib.Path(own)


def _remove(own: pathlib.Path) -> None:
    """Removes a run's folder of temporary files, and the one that it has a link to."""
    with contextlib.suppress(OSError):  # There is no link.
        shutil.rmtree(os.readlink(own / ELSEWHERE), ignore_errors=True)
    shutil.rmtree(own, ignore_errors=True)
