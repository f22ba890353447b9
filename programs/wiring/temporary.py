"""A run's temporary files: in a folder of its own, which no kill leaves behind for good."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator

FOLDER = "tmp"
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
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(mode=0o700)
    os.environ[VARIABLE], tempfile.tempdir = str(own), None
    try:
        yield
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before
        tempfile.tempdir = None
        shutil.rmtree(own, ignore_errors=True)
