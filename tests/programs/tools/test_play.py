"""Playing a run's agent into a picture."""

from __future__ import annotations

import dataclasses
import json

import imageio.v3 as imageio
import jax
import numpy as np
import pytest

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
from boonta.nodes.checkpoint import Checkpointer  # noqa: E402
from boonta.programs.tools import play  # noqa: E402
from boonta.programs.wiring import launch  # noqa: E402
from boonta.programs.wiring.run import BadInput  # noqa: E402
from boonta.tests.helpers import nim, nim_program, tiny_program  # noqa: E402
from boonta.tests.helpers.damage import flip  # noqa: E402


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
def test_an_episode_becomes_a_picture_and_its_return_is_reported(run_folder, ending, capsys):
    out = run_folder / f"episode.{ending}"
    play.play(run_folder, out=out)
    assert capsys.readouterr().out in (f"return {total} in 9 env steps: {out}\n" for total in (-1, 1))
    frames = imageio.imread(out)
    assert len(frames) >= 9 and frames.shape[1] >= 168 and frames.shape[2] >= 80


def test_an_episode_that_takes_too_long_is_cut(run_folder, capsys):
    play.play(run_folder, out=run_folder / "cut.gif", max_steps=3)
    assert capsys.readouterr().out == f"not over in 3 env steps: {run_folder / 'cut.gif'}\n"


def test_both_sides_of_a_game_of_two_are_played(tmp_path, capsys):
    run = nim_program.make_run(tmp_path / "run", 1)
    play.play(run)
    assert capsys.readouterr().out == f"return 1 in 5 env steps: {run / 'play.gif'}\n"  # 5-4-3-2-1-0: player 0 wins
    frames, _, _ = play.episode(*play.agent_and_env(run), {"number": np.ones(1, np.int32)}, max_steps=10, seed=0)
    assert [frame.tolist() for frame in frames] == [[5], [4], [3], [2], [1], [0]]


def test_the_environments_own_picture_comes_first(tmp_path, monkeypatch):
    drawn = np.full((1, 200, 300, 3), 9, np.uint8)
    monkeypatch.setattr("boonta.tests.helpers.nim._NimBatch.render", lambda self: drawn)
    agent, env = play.agent_and_env(nim_program.make_run(tmp_path / "run", 1))
    frames, _, _ = play.episode(agent, env, {"number": np.ones(1, np.int32)}, 10, seed=0)
    assert all((frame == drawn[0]).all() for frame in frames)


def test_another_ending_is_refused_before_playing(run_folder):
    with pytest.raises(BadInput, match=r"must end in \.gif or \.mp4"):
        play.play(run_folder, out=run_folder / "episode.txt")


def test_a_folder_without_a_run_or_without_a_checkpoint(tmp_path):
    with pytest.raises(BadInput, match="holds no run"):
        play.play(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"arguments": ["--nonsense", "1"]}, "was made with settings that the program no longer has"),
        ({"arguments": "--seed"}, "arguments: Input should be a valid array"),
        ({"settings": {"nonsense": 1}}, "was made with settings that the program no longer has: 'nonsense'"),
        ({"function": "nonsense"}, "has no function 'nonsense'"),
        ({"file": "/nowhere.py"}, "program file /nowhere.py doesn't exist"),
    ],
)
def test_a_config_that_its_program_does_not_fit_is_refused(tmp_path, changed, message):
    path = nim_program.make_run(tmp_path / "run", 1) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(BadInput, match=message):
        play.agent_and_env(path.parent)


def test_a_damaged_checkpoint_is_passed_over_with_a_word_and_if_none_is_sound_nothing_is_played(tmp_path, capsys):
    folder = nim_program.make_run(tmp_path / "run", 1)
    agent, _ = play.agent_and_env(folder)
    Checkpointer(folder / "checkpoints").save(2, jax.tree.map(jax.numpy.asarray, nim.params(2)), {})
    flip(folder / "checkpoints" / "2" / "state" / "_METADATA")
    assert int(play.params_of(agent, folder)["number"][0]) == 1
    assert "warning: checkpoint 1 is used, since newer ones are not sound: " in capsys.readouterr().err
    flip(folder / "checkpoints" / "1" / "state" / "_METADATA")
    with pytest.raises(ValueError, match=r"no checkpoint in .* is sound: .*/2: state/_METADATA is altered"):
        play.params_of(agent, folder)


def test_observations_become_visible_pictures():
    assert play.picture(np.zeros((84, 84), np.uint8)).shape == (168, 168, 3)
    assert play.picture(np.zeros((10, 5), np.float32)).shape == (340, 170, 3)
    assert play.picture(np.arange(4, dtype=np.float32)).shape == (168, 672, 3)
    assert play.picture(np.zeros((3, 3, 2), np.float32)).shape == (168, 168, 3)
    assert play.picture(np.eye(10, dtype=np.float32)).max() == 255


@dataclasses.dataclass(frozen=True)
class Config:
    rate: float = 0.2
    sizes: tuple[int, ...] = (1,)
    limit: int | None = None


def test_settings_are_those_of_the_run_whatever_the_defaults_have_become():
    recorded = {"game": "nim", "config": {"rate": 0.1, "sizes": [2, 3], "limit": 5}}
    settings = play.as_recorded({"game": "chess", "config": Config()}, recorded, {"game": str, "config": Config})
    assert settings == {"game": "nim", "config": Config(0.1, (2, 3), 5)}
    with pytest.raises(KeyError, match="gone"):
        play.as_recorded({"config": Config()}, {"config": {"gone": 1}}, {"config": Config})
    with pytest.raises(ValueError, match="valid number"):
        play.as_recorded({"config": Config()}, {"config": {"rate": "0.1"}}, {"config": Config})
