"""Whole programs whose metrics go to a tracker, too."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys
import threading

import pytest

from boonta.nodes import metrics
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.launched import LIGHT
from boonta.tests.helpers.running import Running
from boonta.tests.helpers.sinks import SERVER, taken

ROOT = pathlib.Path(__file__).parents[2]
RECORDING = "boonta.tests.helpers.sinks:Recording"


def check(workdir: pathlib.Path) -> None:
    """Every row has come once, in order."""
    rows = [{name: value for name, value in row.items() if value is not None} for row in metrics.read(workdir)]
    assert rows and [row for (row,) in taken(workdir, "row")] == rows


@pytest.mark.cluster
def test_a_tracker_is_reached_though_the_program_has_a_network_of_its_own(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        calls = []
        threading.Thread(target=lambda: calls.append(server.accept()[0].close()), daemon=True).start()
        monkeypatch.setenv(SERVER, str(server.getsockname()[1]))
        flags = ("--log", RECORDING, "--stop.updates", "20", "--stop.seconds", "200")
        with Running(tmp_path, LIGHT, *flags) as program:
            printed = program.finish(0)
    assert len(calls) == 1 and RECORDING not in printed
    assert not (program.workdir / "tensorboard").exists()
    check(program.workdir)


@pytest.mark.once
def test_a_run_that_goes_on_is_one_run_there(tmp_path):
    command = [sys.executable, str(ROOT / "tests" / "helpers" / "solo_program.py"), "--workdir", str(tmp_path)]
    for updates in ("20", "40"):
        flags = ["--log", "tensorboard", RECORDING, "--stop.updates", updates, "--stop.seconds", "200"]
        done = subprocess.run(
            [*command, *flags], capture_output=True, text=True, timeout=DEADLINE_S, env=dict(os.environ)
        )
        assert done.returncode == 0, done.stderr
    first, second = taken(tmp_path, "begin")
    assert first[0] == second[0] and 0 == first[1] < second[1] and first[2] == "solo_program"
    assert list((tmp_path / "tensorboard").iterdir())
    check(tmp_path)
