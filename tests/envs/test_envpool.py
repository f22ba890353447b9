"""EnvPool's environments, where the package is installed, which isn't locked; and what is refused, with a stand-in."""

import sys
import types

import pytest

from boonta.envs import conformance, envpool

IS_THERE = True
try:
    import envpool as package  # noqa: F401
except (ImportError, AttributeError):
    IS_THERE = False


@pytest.fixture(autouse=True)
def _fresh():
    envpool._package.cache_clear()
    yield
    envpool._package.cache_clear()


@pytest.mark.skipif(not IS_THERE, reason="envpool isn't installed")
@pytest.mark.parametrize(
    ("task", "kwargs"),
    [("Pendulum-v1", {"max_episode_steps": 9}), ("HalfCheetah-v5", {"max_episode_steps": 9}), ("CartPole-v1", {})],
)
def test_conforms(task, kwargs):
    conformance.check(envpool.EnvPool(task, num_threads=1, kwargs=kwargs), steps=60)


def test_an_unknown_task_is_refused_with_what_is_near(monkeypatch):
    stand_in = types.SimpleNamespace(list_all_envs=lambda: ["Pendulum-v1", "Pong-v5"])
    monkeypatch.setitem(sys.modules, "envpool", stand_in)
    with pytest.raises(
        ValueError, match="task is 'Pendulum-v9', which envpool does not know; did you mean 'Pendulum-v1'"
    ):
        envpool.EnvPool("Pendulum-v9")
    with pytest.raises(ValueError, match="num_threads is -1; it must be at least 0"):
        envpool.EnvPool("Pendulum-v1", num_threads=-1)


def test_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(
        ImportError, match=r"needs envpool 1.0 or newer, which can't be imported .*boonta-rl\[envpool\]"
    ):
        envpool.EnvPool("Pendulum-v1")
