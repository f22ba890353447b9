"""Where a program's nodes listen on one machine, and what is left of it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

import psutil
import pytest

from boonta.tests.helpers.apart import LIGHT
from boonta.tests.programs.test_programs import ROOT, finish, pids, wait_for_rows

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(480)]


def start(folder: pathlib.Path, *arguments: str) -> subprocess.Popen:
    """Starts a program that has no replay server, with a folder of its own for what is temporary."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / LIGHT), "--network", "open", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )


@pytest.fixture
def temporary():
    """A folder with a short path, which pytest's have not."""
    with tempfile.TemporaryDirectory(prefix="boonta-") as folder:
        yield pathlib.Path(folder)


@pytest.mark.parametrize("launch", ["local_mp", "local_mt"])
def test_nodes_listen_on_sockets_that_only_their_user_reaches_and_leave_none(tmp_path, temporary, launch):
    workdir = tmp_path / ("a long path" * 10) / "run"
    process = start(temporary, "--launch", launch, "--workdir", str(workdir))
    wait_for_rows(workdir, process)
    (folder,) = temporary.glob("boonta-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.name for file in folder.iterdir() if file.is_socket()} == {"monitor", "variables"}
    for pid in {process.pid, *pids(workdir).values()}:
        connections = psutil.Process(pid).net_connections("inet")
        assert not [each for each in connections if each.status == psutil.CONN_LISTEN], connections
    process.terminate()
    output = finish(process, timeout_s=60)
    assert process.returncode == 143, output
    assert not list(temporary.glob("boonta-*"))


def test_a_temporary_folder_with_too_long_a_path_is_done_without(tmp_path):
    temporary = tmp_path / ("x" * 100)
    temporary.mkdir()
    process = start(temporary, "--workdir", str(tmp_path / "run"), "--stop.updates", "5")
    output = finish(process)
    assert process.returncode == 0, output
