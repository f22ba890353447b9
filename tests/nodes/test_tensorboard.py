"""TensorBoard opens what a run has written: asked over loopback, as a browser would."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator

import imageio.v3 as imageio
import numpy as np
import pytest

from boonta.nodes.sinks.base import TrackedRun
from boonta.nodes.sinks.files import TensorBoard

START_S = 120.0  # It imports for seconds, on a busy machine for many.


@pytest.fixture
def address(tmp_path) -> Iterator[str]:
    """TensorBoard's address; it shows a run of two rows, the second with a histogram, and a video."""
    writer = TensorBoard(print)
    writer.begin(TrackedRun(tmp_path / "runs" / "impala-catch", config={"seed": 3}))
    bins = {"histogram/rho/0.97": 0.25, "histogram/rho/1.03": 0.5, "histogram/rho/inf": 0.25}
    for step, more in ((100, {}), (200, bins)):
        writer.write({"eval_return": step / 200, "env_steps": step, **more})
    writer.video(film(tmp_path / "film.gif"), 200)
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


def film(path: pathlib.Path) -> pathlib.Path:
    """A GIF of two frames, 24 pixels wide and 16 high."""
    frames = np.zeros((2, 16, 24, 3), np.uint8)
    frames[1] += 255
    imageio.imwrite(path, frames, duration=100, loop=0)
    return path


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


def test_it_shows_a_runs_scalars_histograms_and_videos_by_env_steps(address):
    (run,) = wait_for(lambda: ask(address, "/data/runs"), None, None)
    assert run == "impala-catch/tensorboard"
    wait_for(lambda: ask(address, "/data/plugin/scalars/tags").get(run), None, None)

    def both_rows():
        points = ask(address, "/data/plugin/scalars/scalars", run=run, tag="eval_return")
        return points if len(points) >= 2 else None

    points = wait_for(both_rows, None, None)
    assert [point[1:] for point in points] == [[100, 0.5], [200, 1.0]]
    # A histogram comes in bins of one width: [step, [[from, to, share], ...]].
    wait_for(lambda: ask(address, "/data/plugin/histograms/tags").get(run), None, None)
    ((_, step, shown),) = ask(address, "/data/plugin/histograms/histograms", run=run, tag="histogram/rho")
    assert step == 200 and sum(share for *_, share in shown) == pytest.approx(1)
    assert sum(share for _, end, share in shown if end <= 0.97) == pytest.approx(0.25, abs=0.05)
    wait_for(lambda: ask(address, "/data/plugin/images/tags").get(run), None, None)
    (video,) = ask(address, "/data/plugin/images/images", run=run, tag="videos", sample="0")
    assert video["step"] == 200
    with urllib.request.urlopen(f"{address}/data/plugin/images/individualImage?{video['query']}", timeout=30) as answer:
        assert imageio.imread(answer.read(), index=None).shape[:3] == (2, 16, 24)
    (config,) = ask(address, "/data/plugin/text/text", run=run, tag="config/text_summary")
    assert '"seed": 3' in config["text"].replace("&quot;", '"')
