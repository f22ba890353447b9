"""An episode's frames: which there are, and what they show."""

from __future__ import annotations

import types

import numpy as np
import pytest
from dm_env import specs
from PIL import Image, ImageSequence

from boonta.envs.base import BoardView, EnvSpec, TimeStep
from boonta.nodes.acting.local import jit_policy
from boonta.programs.reports import film
from boonta.programs.wiring.trained import agent_and_env
from boonta.tests.helpers import nim_program


def shown(agent, env, every=1):
    """The frames of an episode."""
    frames, params = [], {"number": np.ones(1, np.int32)}
    policy = jit_policy(agent.eval_policy)
    film.episode(policy, env(1, 0), params, 10, 0, lambda *shot: frames.append(shot[0]), every)
    return frames


def test_of_a_game_of_two_every_position_is_shown_or_some(tmp_path):
    run = nim_program.make_run(tmp_path / "run", 1)
    assert [frame.tolist() for frame in shown(*agent_and_env(run))] == [[5], [4], [3], [2], [1], [0]]
    assert [frame.tolist() for frame in shown(*agent_and_env(run), every=3)] == [[5], [2], [0]]


def test_the_environments_own_picture_comes_first(tmp_path, monkeypatch):
    drawn = np.full((1, 200, 300, 3), 9, np.uint8)
    monkeypatch.setattr("boonta.tests.helpers.nim._NimBatch.render", lambda self: drawn)
    frames = shown(*agent_and_env(nim_program.make_run(tmp_path / "run", 1)))
    assert frames and all((frame == drawn[0]).all() for frame in frames)


def test_numbers_that_are_plotted_are_named():
    place, speed = specs.Array((), np.float32), specs.Array((2,), np.float32)
    spec = EnvSpec({"place": place, "speed": speed}, None)

    class Batch:
        text, render = staticmethod(lambda slot: None), staticmethod(lambda: None)

        def __init__(self, spec):
            self.spec = spec

    assert film.plotted_leaves(Batch(spec)) == "['place'], ['speed']"
    assert film.plotted_leaves(Batch(spec._replace(observations=speed))) == ""
    masked = BoardView.spec({"speed": speed}, num_actions=3)
    assert film.plotted_leaves(Batch(spec._replace(observations=masked))) == "['speed']"
    with_picture = {"speed": speed, "view": specs.Array((4, 4), np.float32)}
    assert film.plotted_leaves(Batch(spec._replace(observations=with_picture))) is None
    drawn = Batch(spec)
    drawn.render = lambda: np.zeros((1, 4, 4, 3), np.uint8)
    assert film.plotted_leaves(drawn) is None


def test_a_frame_is_a_picture_of_the_observation_or_all_of_its_numbers():
    def frame(**leaves):
        env = types.SimpleNamespace(text=lambda slot: None, render=lambda: None)
        observation = {name: np.asarray(leaf)[None] for name, leaf in leaves.items()}
        return film.frame_of(types.SimpleNamespace(env=env, timestep=TimeStep(None, None, None, observation)))

    assert frame(place=1.0, speed=[2.0, 3.0]).tolist() == [1.0, 2.0, 3.0]
    assert frame(place=1.0, view=np.ones((4, 5))).shape == (4, 5)


def test_observations_become_visible_pictures():
    assert film.picture(np.zeros((84, 84), np.uint8)).shape == (168, 168, 3)
    assert film.picture(np.zeros((10, 5), np.float32)).shape == (340, 170, 3)
    assert film.picture(np.arange(4, dtype=np.float32)).shape == (168, 672, 3)
    assert film.picture(np.zeros((3, 3, 2), np.float32)).shape == (168, 168, 3)
    assert film.picture(np.eye(10, dtype=np.float32)).max() == 255


@pytest.mark.parametrize("rate", [15.0, 30.0, 40.0])
@pytest.mark.parametrize(("number", "shades"), [(1, 1), (40, 1), (40, 40)])
def test_a_gif_is_as_long_as_the_play(tmp_path, rate, number, shades):
    with film.recording(tmp_path / "film.gif", rate, streamed=False) as show:
        for i in range(number):
            show(np.full((20, 20, 3), i % shades, np.uint8), "")
    with Image.open(tmp_path / "film.gif") as found:
        lengths_ms = [frame.info.get("duration", 0) for frame in ImageSequence.Iterator(found)]
    assert sum(lengths_ms) == pytest.approx(1000 * number / rate, abs=5.0)
