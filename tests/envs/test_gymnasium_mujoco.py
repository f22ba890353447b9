"""Gymnasium's MuJoCo environments: their specs and their pictures."""

from __future__ import annotations

import contextlib

import gymnasium
import numpy as np
import pytest
from dm_env import specs

from boonta.envs import conformance, rendering
from boonta.envs import gymnasium as gym

pytest.importorskip("mujoco")


@pytest.mark.filterwarnings("ignore:no episode ended")
def test_gymnasiums_mujoco_conforms_and_its_specs_are_exact():
    env = gym.Gymnasium("HalfCheetah-v5")
    assert env.spec.actions == specs.BoundedArray((6,), np.float32, [-1.0] * 6, [1.0] * 6, "action")
    assert env.spec.observations.shape == (17,) and env.spec.observations.dtype == np.float32
    assert env(1, 0).steps_per_s == 20
    conformance.check(env, num_envs=2, steps=12)
    conformance.check(gym.Gymnasium("InvertedPendulum-v5", {"max_episode_steps": 7}), steps=40)


@pytest.mark.skipif(rendering.choose() == rendering.NONE, reason=rendering.WANTED)
@pytest.mark.parametrize("name", ["HalfCheetah-v5", "Hopper-v5"])
def test_the_camera_follows_a_body_that_runs_away(name):
    def body(env: gymnasium.Env, x: float) -> int:
        """Pixels of the body at x metres: it is brown, and floor and sky are grey, green or blue."""
        position = env.unwrapped.data.qpos.copy()
        position[0] = x
        env.unwrapped.set_state(position, env.unwrapped.data.qvel)
        return int((env.render().astype(int) @ [1, 0, -1] > 60).sum())

    for kwargs, follows in (({}, True), ({"camera_id": -1}, False)):
        env = gym.Gymnasium(name, kwargs)
        with contextlib.closing(env._make(env._copied[1])) as made:
            made.reset(seed=0)
            assert body(made, 0.0) > 500
            assert (body(made, 20.0) > 500) == follows


def test_without_a_renderer_mujoco_plays_on_undrawn(monkeypatch):
    monkeypatch.setenv(rendering.VARIABLE, rendering.NONE)
    batch = gym.Gymnasium("InvertedPendulum-v5")(num_envs=1, seed=0)
    batch.reset()
    with pytest.warns(UserWarning, match="InvertedPendulum-v5 is not drawn: .*drawing needs EGL"):
        assert batch.render() is None


def cheetah(render_mode=None):
    return gymnasium.make("HalfCheetah-v5", render_mode=render_mode)


def test_an_environment_of_ones_own_is_given_no_camera():
    assert gym.Gymnasium(cheetah)._copied[1] == {"render_mode": "rgb_array"}
