"""`--videos`: a run's checkpoints play, in a process beside it."""

from __future__ import annotations

import subprocess
import sys

import imageio.v3 as imageio
import pytest

from boonta.nodes import metrics
from boonta.nodes.sinks.base import videos_of
from boonta.tests.helpers.launched import ROOT
from boonta.tests.helpers.sinks import taken


@pytest.mark.once
@pytest.mark.timeout(480)
def test_a_runs_last_checkpoint_plays_and_trackers_get_it(tmp_path):
    command = [sys.executable, str(ROOT / "tests" / "helpers" / "solo_program.py"), "--workdir", str(tmp_path)]
    flags = ["--videos", "--log", "tensorboard", "boonta.tests.helpers.sinks:Recording", "--stop.updates", "20"]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and "videos" not in done.stderr, done.stderr
    ((env_steps, video),) = videos_of(tmp_path).items()
    assert env_steps == metrics.read(tmp_path)[-1]["env_steps"]
    assert imageio.imread(video, index=None).shape[0] > 2
    assert taken(tmp_path, "video") == [[video.name, env_steps]]
    events = [file.read_bytes() for file in (tmp_path / "tensorboard").iterdir()]
    assert len(events) == 2  # The monitor's file, and that of the videos.
    with_config = [b"config/text_summary" in each and b'"solo_program"' in each for each in events]
    assert sorted(with_config) == [False, True]
