"""Playing a run's agent into a picture."""

from __future__ import annotations

import imageio.v3 as imageio
import numpy as np
import pytest

pytestmark = pytest.mark.cluster
launch = pytest.importorskip("programs.launch", exc_type=ImportError)
from programs import play  # noqa: E402
from tests.programs import tiny_program  # noqa: E402


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A short serial run of the tiny program."""
    workdir = tmp_path_factory.mktemp("run")
    arguments = ["--workdir", str(workdir), "--stop.updates", "5", "--launch", "serial"]
    with pytest.raises(SystemExit) as ended:
        launch.main(tiny_program.tiny_program, arguments)
    assert ended.value.code == 0
    return workdir


@pytest.mark.parametrize("ending", ["gif", "mp4"])
def test_an_episode_becomes_a_picture_and_its_return_is_told(run_folder, ending, capsys):
    out = run_folder / f"episode.{ending}"
    play.play(run_folder, out=out)
    assert capsys.readouterr().out in (f"return {total} in 10 env steps: {out}\n" for total in (-1, 1))
    frames = imageio.imread(out)
    assert len(frames) >= 9 and frames.shape[1] >= 168 and frames.shape[2] >= 80


def test_another_ending_is_refused_before_playing(run_folder):
    with pytest.raises(launch.BadInput, match=r"must end in \.gif or \.mp4"):
        play.play(run_folder, out=run_folder / "episode.txt")


def test_a_folder_without_a_run_or_without_a_checkpoint(tmp_path):
    with pytest.raises(launch.BadInput, match="holds no run"):
        play.play(tmp_path)


def test_observations_become_visible_pictures():
    assert play.picture(np.zeros((84, 84), np.uint8)).shape == (168, 168, 3)
    assert play.picture(np.zeros((10, 5), np.float32)).shape == (340, 170, 3)
    assert play.picture(np.arange(4, dtype=np.float32)).shape == (168, 672, 3)
    assert play.picture(np.eye(10, dtype=np.float32)).max() == 255
