"""The settings by which runs are grouped."""

from __future__ import annotations

import dataclasses

import pytest

from boonta.envs.atari import Atari
from boonta.envs.base import SAME_STEPS
from boonta.envs.dm_control import DmControl
from boonta.envs.dm_env import DmEnv
from boonta.envs.envpool import EnvPool
from boonta.envs.gymnasium import Gymnasium
from boonta.programs.experiments.results import recorded, results_of
from boonta.programs.experiments.settings import OF_NO_STEP
from boonta.tests.helpers.run_folders import write_run

pytestmark = pytest.mark.once


def test_what_changes_no_step_of_an_environment_is_no_setting(tmp_path):
    env = {"env": "CartPole-v1", "kwargs": {}, "vectorised": False}
    for name, more in [("before", {"workers": 0}), ("after", {"workers": 4, "metrics": ["is_success"]})]:
        folder = write_run(tmp_path / name, settings={"env": {**env, **more}})
        (result,), _ = results_of(recorded(folder), "eval_return", "newest")
        assert not {"env.workers", "env.metrics"} & result.settings.keys() and "env.vectorised" in result.settings


def test_every_setting_that_changes_no_step_is_known_here():
    """`compare` reads folders without loading their environments."""
    made = [Gymnasium, Atari, DmControl, DmEnv, EnvPool]
    fields = [field for each in made for field in dataclasses.fields(each)]
    assert {f"env.{field.name}" for field in fields if SAME_STEPS.items() <= field.metadata.items()} == {*OF_NO_STEP}
