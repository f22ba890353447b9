"""The environments of the guide keep the contract."""

from __future__ import annotations

import importlib
import pathlib

import numpy as np
import pytest

from boonta.envs import base, conformance
from boonta.tests.helpers.examples import python_blocks

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "pages" / "guides" / "environment.md"
BLOCKS = python_blocks(GUIDE)


def names_of_metrics(env: base.Env) -> list[str]:
    """Those of the first episode of a player that always takes action 0."""
    batch, episodes = env(1, 0), []
    batch.reset()
    while not episodes:
        batch.step(np.zeros(1, np.int32))
        episodes = batch.episodes()
    return list(episodes[0].metrics)


@pytest.mark.parametrize(("function", "masked"), [("hunt", False), ("taxi", True)])
def test_an_environment_of_the_guide(function, masked, tmp_path, monkeypatch):
    (block,) = (block for block in BLOCKS if f"def {function}():" in block)
    (tmp_path / f"guide_{function}.py").write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    env = getattr(importlib.import_module(f"guide_{function}"), function)()
    assert isinstance(env.spec.observations, base.BoardView) == masked
    assert masked or names_of_metrics(env) == ["is_success"]
    conformance.check(env, steps=240)


def test_the_environment_around_another_one_of_the_guide(tmp_path, monkeypatch):
    (block,) = (block for block in BLOCKS if "class CarefulAtari(Atari)" in block)
    (tmp_path / "my_atari.py").write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    env = importlib.import_module("my_atari").CarefulAtari("Pong")
    batch = env(1, 0)
    timesteps = [batch.reset(), *(batch.step(np.zeros(1, np.int32)) for _ in range(240))]
    assert {float(timestep.reward[0]) for timestep in timesteps} == {0.0, -2.0}  # Who never moves only loses points.
    batch.close()


@pytest.mark.parametrize(("name", "players"), [("Corridor", 1), ("Nim", 2)])
def test_an_environment_in_jax_of_the_guide(name, players, tmp_path, monkeypatch):
    (block,) = (block for block in BLOCKS if f"class {name}(Game)" in block)
    (tmp_path / f"my_{name.lower()}.py").write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    env = getattr(importlib.import_module(f"my_{name.lower()}"), name)()
    assert env.spec.num_players == players
    assert players == 2 or names_of_metrics(env) == ["is_success"]
    conformance.check(env, steps=240)
