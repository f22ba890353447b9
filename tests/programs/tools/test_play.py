"""Playing a run's agent into a picture."""

from __future__ import annotations

import dataclasses
import json
import shutil

import dm_env
import imageio.v3 as imageio
import jax
import numpy as np
import pytest
from dm_env import specs

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
from boonta.agents.base import Agent, Policy  # noqa: E402
from boonta.envs.base import EnvSpec  # noqa: E402
from boonta.envs.looped import LoopedEnv  # noqa: E402
from boonta.nodes.checkpoint import Checkpointer  # noqa: E402
from boonta.programs.tools import play  # noqa: E402
from boonta.programs.wiring import launch  # noqa: E402
from boonta.programs.wiring.run import BadInput  # noqa: E402
from boonta.programs.wiring.run_folder.config_file import read_config  # noqa: E402
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


def test_a_later_start_that_saved_nothing_has_other_settings_than_the_checkpoint(run_folder, tmp_path):
    run = shutil.copytree(run_folder, tmp_path / "run")
    recorded = json.loads((run / "config.json").read_text())
    width = recorded["settings"]["width"]
    recorded["settings"]["width"] = width + 1
    (run / "config.json").write_text(json.dumps(recorded))
    assert play.program_of(run)[2]["width"] == width
    assert play.program_of(run, read_config(run))[2]["width"] == width + 1


def shown(agent, env, every=1):
    """The frames of an episode."""
    frames = []
    play.episode(agent, env(1, 0), {"number": np.ones(1, np.int32)}, 10, 0, lambda *shot: frames.append(shot[0]), every)
    return frames


def test_both_sides_of_a_game_of_two_are_played(tmp_path, capsys):
    run = nim_program.make_run(tmp_path / "run", 1)
    play.play(run)
    played, drawn = capsys.readouterr().out.splitlines()
    assert played == f"return 1 in 5 env steps: {run / 'play.gif'}"  # 5-4-3-2-1-0: player 0 wins
    assert drawn == "drawn are the numbers of the observation.view: the environment has no picture of its own"
    assert [frame.tolist() for frame in shown(*play.agent_and_env(run))] == [[5], [4], [3], [2], [1], [0]]
    assert [frame.tolist() for frame in shown(*play.agent_and_env(run), every=3)] == [[5], [2], [0]]


def test_the_environments_own_picture_comes_first(tmp_path, monkeypatch):
    drawn = np.full((1, 200, 300, 3), 9, np.uint8)
    monkeypatch.setattr("boonta.tests.helpers.nim._NimBatch.render", lambda self: drawn)
    frames = shown(*play.agent_and_env(nim_program.make_run(tmp_path / "run", 1)))
    assert frames and all((frame == drawn[0]).all() for frame in frames)


def test_numbers_that_are_plotted_are_named():
    spec = EnvSpec({"speed": specs.Array((2,), np.float32), "view": specs.Array((4, 4), np.float32)}, None)

    class Batch:
        text, render = staticmethod(lambda slot: None), staticmethod(lambda: None)

        def __init__(self, spec):
            self.spec = spec

    assert play.plotted_leaf(Batch(spec)) == "['speed']"
    assert play.plotted_leaf(Batch(spec._replace(observations=spec.observations["speed"]))) == ""
    assert play.plotted_leaf(Batch(spec._replace(observations=spec.observations["view"]))) is None
    drawn = Batch(spec)
    drawn.render = lambda: np.zeros((1, 4, 4, 3), np.uint8)
    assert play.plotted_leaf(drawn) is None


@dataclasses.dataclass(frozen=True)
class Slides:
    """Draws where it is, 120 times in a second of its own time, for 60 steps."""

    spec = EnvSpec(specs.Array((1,), np.float32), specs.BoundedArray((1,), np.float32, -1, 1))

    def __call__(self, num_envs, seed):
        return LoopedEnv([Slide() for _ in range(num_envs)], self.spec)


class Slide(dm_env.Environment):
    steps_per_s, steps = 120.0, 0
    observation_spec = action_spec = None

    def reset(self):
        return dm_env.restart(np.zeros(1))

    def step(self, action):
        self.steps += 1
        end = dm_env.termination if self.steps == 60 else dm_env.transition
        return end(float(action[0]), np.zeros(1))

    def render(self):
        picture = np.zeros((176, 240, 3), np.uint8)
        picture[:, : 4 * self.steps] = 255
        return picture


def test_a_continuous_world_is_recorded_at_its_own_speed(tmp_path, monkeypatch, capsys, recwarn):
    policy = Policy(lambda size: (), lambda params, key, timestep, state: (timestep.observation + 0.5, {}, state))
    monkeypatch.setattr(play, "agent_and_env", lambda workdir: (Agent(policy, policy, None, ()), Slides()))
    monkeypatch.setattr(play, "params_of", lambda *_: {})
    play.play(tmp_path, out=tmp_path / "slide.mp4")
    assert not [each for each in recwarn if "fork" in str(each.message)]  # Of the process that encodes the film.
    assert capsys.readouterr().out == f"return 30 in 60 env steps: {tmp_path / 'slide.mp4'}\n"
    assert imageio.immeta(tmp_path / "slide.mp4")["fps"] == 30  # Every fourth of its steps.
    white = [(frame > 128).all(axis=-1).mean() for frame in imageio.imread(tmp_path / "slide.mp4")]
    np.testing.assert_allclose(white, np.arange(16) / 15, atol=0.03)


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
    run = nim_program.make_run(tmp_path / "run", 1)
    for path in run.rglob("config.json"):  # The checkpoint has a copy.
        path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(BadInput, match=message):
        play.agent_and_env(run)


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
