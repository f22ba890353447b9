"""`--videos`: a run's checkpoints play, in a process beside it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import types

import imageio.v3 as imageio
import pytest

from boonta.nodes import metrics
from boonta.nodes.sinks.base import video_at, videos_of
from boonta.programs.reports import videos
from boonta.tests.helpers.launched import ROOT
from boonta.tests.helpers.sinks import taken

# A program whose launcher waits for the last video for as long as a busy machine may take.
PATIENT = """
import sys
from boonta.programs.wiring.supervision import trackers
from boonta.programs.wiring.launch import main
from boonta.tests.helpers.solo_program import solo_program
trackers.LAST_VIDEO_S = 300.0
main(solo_program, sys.argv[1:])
"""


@pytest.mark.once
@pytest.mark.unoptimised
def test_a_runs_last_checkpoint_plays_and_trackers_get_it(tmp_path):
    flags = ["--videos", "--log", "tensorboard", "boonta.tests.helpers.sinks:Recording", "--stop.updates", "20"]
    command = [sys.executable, "-c", PATIENT, "--workdir", str(tmp_path), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=440, cwd=ROOT)
    assert done.returncode == 0 and "videos" not in done.stderr, done.stderr
    ((env_steps, video),) = videos_of(tmp_path).items()
    assert env_steps == metrics.read(tmp_path)[-1]["env_steps"]
    assert imageio.imread(video, index=None).shape[0] > 2
    assert taken(tmp_path, "video") == [[video.name, env_steps]]
    events = [file.read_bytes() for file in (tmp_path / "tensorboard").iterdir()]
    assert len(events) == 2  # The monitor's file, and that of the videos.
    with_config = [b"config/text_summary" in each and b'"solo_program"' in each for each in events]
    assert sorted(with_config) == [False, True]


class Unlucky(videos.Recorder):
    """Can't read a checkpoint at the first tries."""

    fails = 0
    tried: list[int]

    def _record(self) -> None:
        self.tried.append(self._newest)
        if self.tried.count(self._newest) <= self.fails:
            raise OSError("it is gone")


@pytest.mark.parametrize(("fails", "tries"), [(0, 1), (2, 3), (9, 3)])
def test_a_checkpoint_that_can_not_be_read_is_tried_again_a_few_times(tmp_path, monkeypatch, capsys, fails, tries):
    monkeypatch.setattr(Unlucky, "fails", fails)
    monkeypatch.setattr(Unlucky, "tried", [], raising=False)
    monkeypatch.setattr(videos, "Recorder", Unlucky)
    monkeypatch.setattr(os, "nice", lambda niceness: niceness)
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # The run has ended.
    pauses: list[float] = []
    monkeypatch.setattr(videos, "time", types.SimpleNamespace(sleep=pauses.append))
    for number in (5, 7):
        (tmp_path / "checkpoints" / str(number)).mkdir(parents=True)
        videos.record_beside(tmp_path)
    assert Unlucky.tried == [5] * tries + [7] * tries
    assert pauses == [videos.POLL_S] * 2 * (tries - 1)
    assert capsys.readouterr().out == "videos: OSError: it is gone\n" * 2 * bool(fails)


def test_a_newer_checkpoint_is_tried_as_often(tmp_path, monkeypatch):
    monkeypatch.setattr(Unlucky, "fails", 9)
    monkeypatch.setattr(Unlucky, "tried", [], raising=False)
    recorder = Unlucky(tmp_path)
    for number in (5, 7):
        (tmp_path / "checkpoints" / str(number)).mkdir(parents=True)
        for _ in range(videos.TRIES):
            with pytest.raises(OSError, match="gone"):
                recorder.look()
        recorder.look()
    assert Unlucky.tried == [5] * 3 + [7] * 3


def test_a_video_of_a_run_without_env_steps_has_the_name_of_its_updates(tmp_path, monkeypatch):
    monkeypatch.setattr(videos, "restored", lambda agent, folder, which: (None, {"updates": 5.0}))
    (tmp_path / "checkpoints" / "5").mkdir(parents=True)
    video_at(tmp_path, 5).parent.mkdir()
    video_at(tmp_path, 5).touch()
    recorder = videos.Recorder(tmp_path)
    recorder._made = (None, None, None)  # Nothing could play: a video that is there isn't made again.
    recorder.look()
    assert not recorder.tries
