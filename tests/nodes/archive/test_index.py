"""The same environment is described by the same words in every process, however fast it is."""

from __future__ import annotations

import dataclasses
import functools
import pathlib

import gymnasium
import pytest

from boonta.envs.atari import Atari
from boonta.envs.catch import Catch
from boonta.envs.continuing import Continuing
from boonta.envs.dm_env import DmEnv
from boonta.envs.gymnasium import Gymnasium
from boonta.envs.jax import catch as jax_catch
from boonta.envs.jax.grid_world import GridWorld
from boonta.envs.processes import InProcesses
from boonta.nodes.archive.index import describe, require_environment
from boonta.tests.helpers.fragile import Fragile


def loaded() -> DmEnv:
    """An environment of a function that is another object each time, as it is in another process."""

    def make(seed, scale):
        return Fragile(seed)

    return DmEnv(functools.partial(make, scale=2))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Gymnasium("CartPole-v1", workers=2), Gymnasium("CartPole-v1")),
        (Atari("Pong", num_threads=4), Atari("Pong")),
        (InProcesses(Catch(rows=4), 2), Catch(rows=4)),
        (Continuing(InProcesses(Catch(rows=4), 2)), Continuing(Catch(rows=4))),
        (Continuing(DmEnv(Fragile, workers=2)), Continuing(DmEnv(Fragile))),
        (loaded(), loaded()),
        (Continuing(loaded()), Continuing(loaded())),
    ],
)
def test_the_same_environment_is_described_alike(one, other):
    assert describe(one) == describe(other)
    require_environment(pathlib.Path("archive"), describe(one), other)


def test_what_it_is_made_of_tells_environments_apart():
    made = [functools.partial(gymnasium.make, "CartPole-v1", max_episode_steps=steps) for steps in (8, 9)]
    envs = [*map(Gymnasium, made), *(Continuing(Catch(rows=rows)) for rows in (4, 5))]
    assert len({str(describe(env).settings) for env in envs}) == len(envs)


def test_settings_of_speed_in_older_archives_dont_matter():
    older = describe(Gymnasium("CartPole-v1"))
    older.settings["workers"] = 2
    require_environment(pathlib.Path("archive"), older, Gymnasium("CartPole-v1"))


def test_what_is_measured_of_episodes_tells_no_environments_apart():
    assert describe(Gymnasium("CartPole-v1", metrics=("is_success",))) == describe(Gymnasium("CartPole-v1"))


def test_a_jax_environment_is_described_itself_and_not_as_its_twin():
    described = describe(jax_catch.Catch(rows=4))
    assert (described.name, described.settings) == ("jax.Catch", {"rows": 4, "columns": 5})
    with pytest.raises(ValueError, match=r"name is 'jax.Catch' there, 'Catch' here"):
        require_environment(pathlib.Path("archive"), described, Catch(rows=4))


def test_a_jax_environment_within_another_is_not_its_twin():
    wrapped = describe(Continuing(jax_catch.Catch(rows=4)))
    assert wrapped.settings["env"] == "jax.Catch(rows=4, columns=5)"
    with pytest.raises(ValueError, match=r"setting env is 'jax.Catch\(.*' there, 'Catch\(.*' here"):
        require_environment(pathlib.Path("archive"), wrapped, Continuing(Catch(rows=4)))


def test_archives_of_jax_environments_from_before_are_still_of_them():
    env = GridWorld(cells=3)
    older = dataclasses.replace(
        describe(env), name="Batched", settings={"env": "GridWorld(cells=3, max_episode_steps=100)"}
    )
    require_environment(pathlib.Path("archive"), older, env)
    with pytest.raises(ValueError, match=r"setting env is 'GridWorld\(cells=3, .* there, 'GridWorld\(cells=4, "):
        require_environment(pathlib.Path("archive"), older, GridWorld(cells=4))
