"""Playing a run's agent into a picture."""

from __future__ import annotations

import dataclasses
import pathlib
import re

import dm_env
import imageio.v3 as imageio
import numpy as np
import pytest
from dm_env import specs

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
from boonta.agents.base import Agent, Policy  # noqa: E402
from boonta.envs.base import EnvSpec  # noqa: E402
from boonta.envs.looped import LoopedEnv  # noqa: E402
from boonta.programs.tools import play  # noqa: E402
from boonta.programs.wiring import launch  # noqa: E402
from boonta.programs.wiring.run import BadInput  # noqa: E402
from boonta.tests.helpers import nim_program, tiny_program  # noqa: E402


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
    played, drawn = capsys.readouterr().out.splitlines()
    assert played == f"return 1 in 5 env steps: {run / 'play.gif'}"  # 5-4-3-2-1-0: player 0 wins
    assert drawn == "drawn are the numbers of the observation: the environment has no picture of its own"


@dataclasses.dataclass(frozen=True)
class Slides:
    """Draws where it is, 120 times in a second of its own time, for 60 steps."""

    slide: type[dm_env.Environment] | None = None
    spec = EnvSpec(specs.Array((1,), np.float32), specs.BoundedArray((1,), np.float32, -1, 1))

    def __call__(self, num_envs, seed):
        return LoopedEnv([(self.slide or Slide)() for _ in range(num_envs)], self.spec)


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
    policy = Policy(lambda slots: (), lambda params, key, timestep, state: (timestep.observation + 0.5, {}, state))
    monkeypatch.setattr(play, "agent_and_env", lambda *_: (Agent(policy, policy, None, ()), Slides()))
    monkeypatch.setattr(play, "params_of", lambda *_: {})
    play.play(tmp_path, out=tmp_path / "slide.mp4")
    assert not [each for each in recwarn if "fork" in str(each.message)]  # Of the process that encodes the film.
    assert capsys.readouterr().out == f"return 30 in 60 env steps: {tmp_path / 'slide.mp4'}\n"
    assert imageio.immeta(tmp_path / "slide.mp4")["fps"] == 30  # Every fourth of its steps.
    white = [(frame > 128).all(axis=-1).mean() for frame in imageio.imread(tmp_path / "slide.mp4")]
    np.testing.assert_allclose(white, np.arange(16) / 15, atol=0.03)


class Broken(Slide):
    """Shows a NaN."""

    def step(self, action):
        return dm_env.transition(0.0, np.full(1, np.nan))


def test_a_nan_that_the_environment_shows_ends_it_with_a_line(tmp_path, monkeypatch, capsys):
    policy = Policy(lambda slots: (), lambda params, key, timestep, state: (timestep.observation + 0.5, {}, state))
    monkeypatch.setattr(play, "agent_and_env", lambda *_: (Agent(policy, policy, None, ()), Slides(Broken)))
    monkeypatch.setattr(play, "params_of", lambda *_: {})
    monkeypatch.setattr("sys.argv", ["play", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        play.main()
    told = capsys.readouterr().err
    assert ended.value.code == 1 and told.startswith("error: the environment's observation[0] is nan in slot 0 ")


def test_another_ending_is_refused_before_playing(run_folder):
    with pytest.raises(BadInput, match=r"must end in \.gif or \.mp4"):
        play.play(run_folder, out=run_folder / "episode.txt")


@pytest.mark.parametrize("max_steps", [0, -3])
def test_a_limit_below_one_step_is_refused_and_keeps_the_picture(tmp_path, max_steps):
    (tmp_path / "play.gif").write_bytes(b"of before")
    with pytest.raises(BadInput, match=f"--max-steps is {max_steps}; it must be at least 1"):
        play.play(tmp_path, max_steps=max_steps)
    assert (tmp_path / "play.gif").read_bytes() == b"of before"


@pytest.mark.parametrize("out", ["/proc/none/episode.gif", "/proc/episode.mp4"])
def test_a_file_that_can_not_be_written_is_refused_before_playing(run_folder, out):
    with pytest.raises(BadInput, match=re.escape(f"--out {out} can't be written: [Errno 2] No such file or directory")):
        play.play(run_folder, out=pathlib.Path(out))


@pytest.mark.parametrize("name", [".", "none"])
def test_a_folder_without_a_run(tmp_path, name):
    with pytest.raises(BadInput, match="holds no run"):
        play.play(tmp_path / name)
