"""Shared by all tests: how JAX compiles, and the rule that cluster tests run only on CPython 3.10."""

from __future__ import annotations

import atexit
import gc
import importlib.util
import os
import shutil
import signal
import tempfile

import pytest

from boonta.envs import rendering
from boonta.tests.helpers.launched import SMALL_SEARCH

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # Pytest's workers and tests' programs share it.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder = tempfile.mkdtemp(prefix="boonta-compiled-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # A shell's background command ignores it, and so would programs.
    signal.signal(signal.SIGINT, signal.default_int_handler)

rendering.choose()  # Some tests import MuJoCo before our environments could choose.
CLUSTER = importlib.util.find_spec("launchpad") is not None
if CLUSTER:  # Tests may import distrax, and TensorFlow, in any order.
    from boonta.agents import light_rlax

    light_rlax.import_distrax()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips cluster tests, by their mark, where the cluster can't be installed."""
    skip = pytest.mark.skip(reason="needs Reverb and Launchpad, whose wheels are for CPython 3.10")
    for item in items:
        if item.get_closest_marker("cluster") and item.get_closest_marker("once"):
            raise pytest.UsageError(f"{item.nodeid} is marked `cluster` and `once`, so that no Python would run it")
        if item.get_closest_marker("once") and SMALL_SEARCH.mark in item.iter_markers():
            raise pytest.UsageError(f"{item.nodeid} is marked `once` and SMALL_SEARCH: no Python would run it")
        if not CLUSTER and item.get_closest_marker("cluster"):
            item.add_marker(skip)


@pytest.hookimpl(tryfirst=True)  # Before the fixtures of the module, which start programs too.
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tells JAX whether to optimise, by the test's mark: where little is run, the compiler takes most of the time."""
    import jax

    unoptimised = item.get_closest_marker("unoptimised") is not None
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = str(int(unoptimised))  # The programs that the test starts read this.
    jax.config.update("jax_disable_most_optimizations", unoptimised)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """Leaves the signal handlers as they were: programs that end in this process leave Ctrl-C ignored.

    This goes around the fixtures of modules, too, some of which run programs.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return (yield)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Takes what a module has left, such as JAX's caches, out of later garbage collections.

    After some modules these are millions of objects, and each collection of all of them takes seconds.
    """
    if nextitem is None or nextitem.fspath != item.fspath:
        gc.collect()
        gc.freeze()


@pytest.fixture
def small_disk(tmp_path):
    """A folder that is a disk of 8 MB."""
    from boonta.tests.helpers.damage import mounted

    with mounted(tmp_path / "disk", "size=8m") as disk:
        yield disk
