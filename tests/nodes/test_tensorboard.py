"""TensorBoard opens what a run has written: asked over loopback, as a browser would."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator

import pytest

from boonta.nodes.sinks.base import TrackedRun
from boonta.nodes.sinks.files import TensorBoard

START_S = 120.0  # It imports for seconds, on a busy machine for many.


@pytest.fixture
def address(tmp_path) -> Iterator[str]:
    """TensorBoard's address; it shows a run of two rows."""
    writer = TensorBoard(print)
    writer.begin(TrackedRun(tmp_path / "runs" / "impala-catch"))
    for step in (100, 200):
        writer.write({"eval_return": step / 200, "env_steps": step})
    writer.close()
    command = ["-m", "tensorboard.main", "--logdir", str(tmp_path / "runs"), "--host", "127.0.0.1", "--port", "0"]
    log = tmp_path / "log"
    with log.open("w") as output:
        server = subprocess.Popen([sys.executable, *command], stdout=output, stderr=subprocess.STDOUT)
    try:
        yield wait_for(lambda: re.search(r"http://127\.0\.0\.1:\d+", log.read_text()), server, log).group()
    finally:
        server.kill()
        server.wait(30)


def wait_for(look, server, log):
    """What `look` finds, once it finds something."""
    deadline = time.monotonic() + START_S
    while not (found := look()):
        assert server is None or server.poll() is None, log.read_text()
        assert time.monotonic() < deadline, f"nothing after {START_S:.0f} s"
        time.sleep(0.2)
    return found


def ask(address: str, path: str, **arguments: str):
    with urllib.request.urlopen(f"{address}{path}?{urllib.parse.urlencode(arguments)}", timeout=30) as answer:
        return json.load(answer)


def test_it_shows_a_runs_scalars_by_env_steps(address):
    (run,) = wait_for(lambda: ask(address, "/data/runs"), None, None)
    assert run == "impala-catch/tensorboard"
    wait_for(lambda: ask(address, "/data/plugin/scalars/tags").get(run), None, None)

    def both_rows():
        points = ask(address, "/data/plugin/scalars/scalars", run=run, tag="eval_return")
        return points if len(points) >= 2 else None

    points = wait_for(both_rows, None, None)
    assert [point[1:] for point in points] == [[100, 0.5], [200, 1.0]]
