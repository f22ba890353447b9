"""Where a program's nodes listen on one machine, and what is left of it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

import psutil
import pytest

from boonta.programs.wiring.run_folder.temporary import ELSEWHERE, FOLDER
from boonta.tests.helpers.apart import LIGHT
from boonta.tests.helpers.launched import ROOT, finish, pids, wait_for_rows

pytestmark = pytest.mark.cluster


def start(*arguments: str) -> subprocess.Popen:
    """Starts a program that has no replay server."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / LIGHT), "--network", "open", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def short():
    """A folder with a short path, which pytest's have not."""
    with tempfile.TemporaryDirectory(prefix="boonta-") as folder:
        yield pathlib.Path(folder)


@pytest.mark.parametrize(("launch", "is_long"), [("local_mp", True), ("local_mt", False)])
def test_nodes_listen_on_sockets_that_only_their_user_reaches_and_leave_none(tmp_path, short, launch, is_long):
    workdir = tmp_path / ("a long path" * 10) / "run" if is_long else short / "run"
    process = start("--launch", launch, "--workdir", str(workdir))
    wait_for_rows(workdir, process)
    place = pathlib.Path(os.readlink(workdir / FOLDER / ELSEWHERE)) if is_long else workdir / FOLDER
    folder = next(place.glob("*/monitor")).parent  # Other temporary files may lie beside it.
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.name for file in folder.iterdir() if file.is_socket()} == {"monitor", "variables"}
    for pid in {process.pid, *pids(workdir).values()}:
        connections = psutil.Process(pid).net_connections("inet")
        assert not [each for each in connections if each.status == psutil.CONN_LISTEN], connections
    process.terminate()
    output = finish(process)
    assert process.returncode == 143, output
    assert not place.exists() and not (workdir / FOLDER).exists()
