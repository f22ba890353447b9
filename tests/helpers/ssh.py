"""A script that runs the command here, in the place of `ssh`."""

from __future__ import annotations

import os
import pathlib
import shlex

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def stand_in(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts the script first in the path, and makes the folder a machine's repository: its `run` is in this environment.

    Args:
      folder: the folder for both scripts, which is the machines' `root`.
      monkeypatch: the test's.
    """
    ssh, run = folder / "ssh", folder / "run"
    ssh.write_text('#!/bin/bash\nwhile [[ $1 == -o ]]; do shift 2; done\nexec sh -c "$2"\n')
    run.write_text(f'#!/bin/sh\ncd {shlex.quote(str(ROOT))} && exec "$@"\n')
    ssh.chmod(0o755)
    run.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
