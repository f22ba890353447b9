"""An archive's environment is made again from the archive, and by no code but ours."""

from __future__ import annotations

import functools
import importlib
import sys

import ale_py
import gymnasium
import pytest

from boonta.envs.gymnasium import Gymnasium
from boonta.programs.wiring.archived import env_of_archive
from boonta.programs.wiring.run import BadInput
from boonta.tests.helpers.archives import make
from boonta.tests.helpers.countdown import Countdown


@pytest.mark.parametrize(
    ("module", "name", "settings"),
    [
        ("grid_world", "GridWorld", {"cells": 3}),
        ("gymnax", "Gymnax", {"env": "CartPole-v1", "params": {"gravity": 3.7}}),
        ("pgx", "Pgx", {"game": "tic_tac_toe"}),
        ("brax", "Brax", {"env": "fast", "backend": None}),
    ],
)
def test_a_jax_environment_is_the_recorded_one(tmp_path, module, name, settings):
    if module != "grid_world":
        pytest.importorskip(module)
    env = getattr(importlib.import_module(f"boonta.envs.jax.{module}"), name)(**settings)
    make(tmp_path, env=env)
    assert env_of_archive(tmp_path) == env


def test_without_its_package_the_environment_can_not_be_made(tmp_path, monkeypatch):
    pytest.importorskip("pgx")
    from boonta.envs.jax.pgx import Pgx

    make(tmp_path, env=Pgx("tic_tac_toe"))
    monkeypatch.setitem(sys.modules, "boonta.envs.jax.pgx", None)
    with pytest.raises(BadInput, match=r"is of 'jax\.Pgx': "):
        env_of_archive(tmp_path)


def test_ids_of_gymnasium_with_and_without_the_package_that_registers_them(tmp_path):
    gymnasium.register_envs(ale_py)
    envs = [Gymnasium("CartPole-v1", {"sutton_barto_reward": True}), Gymnasium("ale_py:ALE/Pong-v5", {"frameskip": 2})]
    for env in envs:
        make(tmp_path / str(envs.index(env)), range(1), env=env)
        assert env_of_archive(tmp_path / str(envs.index(env))) == env


@pytest.mark.parametrize("made_by", [Countdown, lambda: Countdown(), functools.partial(Countdown)])
def test_what_a_callable_makes_is_named_by_the_user(tmp_path, made_by):
    make(tmp_path, env=Gymnasium(made_by))
    with pytest.raises(BadInput, match=r"which is code of yours\. Name it in the program's `env =` line"):
        env_of_archive(tmp_path)


def test_no_module_is_imported_because_an_archive_names_it(tmp_path, monkeypatch):
    """As in an archive from others; this one is of a module that does nothing."""
    (tmp_path / "theirs.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    make(tmp_path / "data", env=Gymnasium("theirs:CartPole-v1"))
    monkeypatch.delitem(sys.modules, "theirs")
    with pytest.raises(BadInput, match="'theirs:CartPole-v1', and of the modules .* ale_py, .* Name it in the program"):
        env_of_archive(tmp_path / "data")
    assert "theirs" not in sys.modules
