"""An episode's frames: which there are, and what they show."""

from __future__ import annotations

import numpy as np
from dm_env import specs

from boonta.envs.base import EnvSpec
from boonta.programs.reports import film
from boonta.programs.wiring.trained import agent_and_env
from boonta.tests.helpers import nim_program


def shown(agent, env, every=1):
    """The frames of an episode."""
    frames = []
    film.episode(agent, env(1, 0), {"number": np.ones(1, np.int32)}, 10, 0, lambda *shot: frames.append(shot[0]), every)
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
    spec = EnvSpec({"speed": specs.Array((2,), np.float32), "view": specs.Array((4, 4), np.float32)}, None)

    class Batch:
        text, render = staticmethod(lambda slot: None), staticmethod(lambda: None)

        def __init__(self, spec):
            self.spec = spec

    assert film.plotted_leaf(Batch(spec)) == "['speed']"
    assert film.plotted_leaf(Batch(spec._replace(observations=spec.observations["speed"]))) == ""
    assert film.plotted_leaf(Batch(spec._replace(observations=spec.observations["view"]))) is None
    drawn = Batch(spec)
    drawn.render = lambda: np.zeros((1, 4, 4, 3), np.uint8)
    assert film.plotted_leaf(drawn) is None


def test_observations_become_visible_pictures():
    assert film.picture(np.zeros((84, 84), np.uint8)).shape == (168, 168, 3)
    assert film.picture(np.zeros((10, 5), np.float32)).shape == (340, 170, 3)
    assert film.picture(np.arange(4, dtype=np.float32)).shape == (168, 672, 3)
    assert film.picture(np.zeros((3, 3, 2), np.float32)).shape == (168, 168, 3)
    assert film.picture(np.eye(10, dtype=np.float32)).max() == 255
