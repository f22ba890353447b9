"""The DeepMind Control Suite's tasks."""

import contextlib
import dataclasses
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from dm_env import specs

from boonta.envs import base, conformance, dm_control, rendering
from boonta.envs.dm_control import DmControl
from boonta.envs.looped import LoopedEnv
from boonta.tests.helpers.deadline import DEADLINE_S

suite = pytest.importorskip("dm_control.suite")
drawn = pytest.mark.skipif(rendering.choose() == rendering.NONE, reason=rendering.WANTED)
IN_STATE = 5  # Numbers of cartpole's state: 3 of positions, 2 of velocities.


@pytest.mark.filterwarnings("ignore:no episode ended")
@pytest.mark.parametrize(
    "env",
    [
        DmControl("cartpole-swingup", action_repeat=2),
        pytest.param(DmControl("ball_in_cup-catch", "leaves"), marks=pytest.mark.once),
    ],
    ids=str,
)
def test_conforms(env):
    conformance.check(env, num_envs=2, steps=12)


def test_specs_are_exact():
    spec = DmControl("cartpole-swingup", action_repeat=4).spec
    assert spec.observations == specs.Array((IN_STATE,), np.float32, "state")
    assert spec.actions == specs.BoundedArray((1,), np.float32, [-1.0], [1.0], "action")
    assert spec.actions.minimum.dtype == np.float32 and spec.frames_per_step == 4
    leaves = DmControl("cartpole-swingup", "leaves").spec.observations
    assert type(leaves) is dict and {name: leaf.shape for name, leaf in leaves.items()} == {
        "position": (3,),
        "velocity": (2,),
    }
    assert {leaf.dtype for leaf in leaves.values()} == {np.dtype(np.float32)}


def test_rewards_of_repeated_actions_add_up_to_those_of_the_task():
    """It steps the suite's own environment with the slot's seed beside ours."""
    batch = DmControl("cartpole-swingup", action_repeat=3)(num_envs=1, seed=1)
    (seed,) = base.slot_seeds(1, 1)
    theirs = suite.load("cartpole", "swingup", task_kwargs={"random": int(seed)})
    ours, own = batch.reset(), theirs.reset()
    for action in np.random.default_rng(0).uniform(-1, 1, (5, 1)).astype(np.float32):
        np.testing.assert_allclose(ours.observation[0], np.concatenate(list(own.observation.values())), rtol=1e-6)
        ours = batch.step(action[None])
        rewards = [(own := theirs.step(action)).reward for _ in range(3)]
        np.testing.assert_allclose(ours.reward, sum(rewards), rtol=1e-6)
    assert batch.steps_per_s == pytest.approx(100 / 3)


def test_the_time_limit_truncates_even_within_a_repeated_action():
    batch = DmControl("cartpole-balance", action_repeat=300)(num_envs=1, seed=0)
    steps = [batch.reset()] + [batch.step(np.zeros((1, 1))) for _ in range(5)]
    assert [int(step.step_type[0]) for step in steps] == [0, 1, 1, 1, 2, 0]
    assert steps[4].discount == 1 and steps[4].reward > 0
    assert [episode.env_steps for episode in batch.episodes()] == [4]


def test_a_task_that_terminates_does_so_even_within_a_repeated_action():
    task = dm_control._Task(0, DmControl("lqr-lqr_2_1", action_repeat=3))
    task.reset()
    with task._env.physics.reset_context():
        task._env.physics.data.qpos[:] = task._env.physics.data.qvel[:] = 0  # It terminates at rest.
    end = task.step(np.zeros(1))
    assert end.last() and end.discount == 0.0


@drawn
def test_pixels_are_those_of_a_camera_and_move():
    env = DmControl("cartpole-swingup", "both", action_repeat=8, height=24, width=32)
    assert env.spec.observations["pixels"] == specs.BoundedArray((24, 32, 3), np.uint8, 0, 255, "pixels")
    assert env.kind == "dm_control" and DmControl("cartpole-swingup", "pixels").kind == "dm_control_pixels"
    batch = env(num_envs=1, seed=0)
    first = batch.reset().observation
    for _ in range(5):
        last = batch.step(np.ones((1, 1))).observation
    assert first["pixels"].shape == (1, 24, 32, 3) and first["pixels"].dtype == np.uint8
    assert (first["pixels"] != last["pixels"]).any() and first["state"].shape == (1, IN_STATE)
    assert batch.render().shape == (1, 240, 320, 3)
    batch.close()
    with contextlib.closing(dataclasses.replace(env, camera=1)(num_envs=1, seed=0)) as beside:
        assert (first["pixels"] != beside.reset().observation["pixels"]).any()


@drawn
def test_pixels_are_drawn_by_a_worker_unless_there_shall_be_none():
    for observe, draws in {"state": False, "leaves": False, "pixels": True, "both": True}.items():
        env = DmControl("cartpole-swingup", observe, height=8, width=8)
        assert not env.one_thread and dataclasses.replace(env, workers=0).one_thread == draws
        with contextlib.closing(env(num_envs=1, seed=0)) as batch:
            assert isinstance(batch, LoopedEnv) != draws


@drawn
@pytest.mark.skipif("DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ, reason="it would open a window")
def test_pixels_are_drawn_after_a_window_of_pygames_has_closed():
    pygame = pytest.importorskip("pygame")
    batch = DmControl("cartpole-swingup", "pixels", height=8, width=8, workers=0)(num_envs=1, seed=0)
    pygame.init()
    pygame.display.set_mode((8, 8))
    pygame.quit()
    assert batch.reset().observation.shape == (1, 8, 8, 3)
    batch.close()


@drawn
@pytest.mark.slow
def test_pixels_conform():
    with pytest.warns(UserWarning, match="no episode ended"):
        conformance.check(DmControl("cartpole-swingup", "pixels", height=8, width=8, workers=0), num_envs=1, steps=4)


def test_without_a_renderer_pixels_are_refused_and_nothing_is_drawn(monkeypatch):
    monkeypatch.setenv(rendering.VARIABLE, rendering.NONE)
    with pytest.raises(ValueError, match="MUJOCO_GL is 'off': drawing needs EGL"):
        DmControl("cartpole-swingup", "pixels")
    batch = DmControl("cartpole-swingup")(num_envs=1, seed=0)
    batch.reset()
    with pytest.warns(
        UserWarning, match="cartpole-swingup is not drawn: ValueError: MUJOCO_GL is 'off': drawing needs EGL"
    ):
        assert batch.render() is None


@pytest.mark.once
def test_a_renderer_that_cannot_be_loaded_is_named(tmp_path):
    code = "from boonta.envs.dm_control import DmControl\nDmControl('cartpole-swingup')"
    variables = os.environ | {rendering.VARIABLE: "nonsense"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert "ImportError: dm_control can't load the renderer of MUJOCO_GL, 'nonsense' (RuntimeError" in done.stderr


def test_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "dm_control", None)
    dm_control._suite.cache_clear()
    with pytest.raises(ImportError, match=r"needs dm_control, which can't be imported .*boonta-rl\[mujoco\]"):
        DmControl("cartpole-swingup")
    monkeypatch.undo()
    dm_control._suite.cache_clear()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"task": "cartpole-swing"},
            "task is 'cartpole-swing', which dm_control does not know; did you mean 'cartpole-sw",
        ),
        ({"task": "cartpole"}, "which dm_control does not know; did you mean 'cartpole"),
        ({"task": "cartpole-swingup", "action_repeat": 0}, "action_repeat is 0; it must be at least 1"),
        ({"task": "cartpole-swingup", "width": 2000}, "width is 2000; it must be from 1 to 1024"),
        ({"task": "cartpole-swingup", "workers": -1}, "workers is -1; it must be at least 0"),
        ({"task": "cartpole-swingup", "camera": 9}, "camera is 9; cartpole-swingup has 2 from 0 on, and -1 is free"),
    ],
)
def test_refuses_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        _ = DmControl(**settings).spec


def test_pickles():
    env = DmControl("cartpole-swingup", "leaves", workers=2)
    assert pickle.loads(pickle.dumps(env)) == env
