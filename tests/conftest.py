"""Shared by all tests: JAX's compilation cache, and the rule that cluster tests run only on CPython 3.10."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import signal
import tempfile

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # Pytest's workers and tests' programs share it.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = folder = tempfile.mkdtemp(prefix="boonta-compiled-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

CLUSTER = importlib.util.find_spec("launchpad") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips cluster tests, by their mark, where the cluster can't be installed."""
    skip = pytest.mark.skip(reason="needs Reverb and Launchpad, whose wheels are for CPython 3.10")
    for item in items:
        if not CLUSTER and item.get_closest_marker("cluster"):
            item.add_marker(skip)


@pytest.fixture
def handlers():
    """Leaves the signal handlers as they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
