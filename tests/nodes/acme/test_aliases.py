"""Acme's JAX agents are imported behind the aliases, and other versions are refused."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
import boonta.nodes.acme  # noqa: E402
from boonta.nodes.acme import aliases  # noqa: E402

import acme  # noqa: E402  # isort: skip


def test_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(acme, "__version__", "0.6.1")
    with pytest.raises(ImportError, match="the aliases are for dm-acme 0.4.0, and this is 0.6.1"):
        aliases.install()


def test_another_version_is_warned_of_when_the_room_is_imported(monkeypatch):
    monkeypatch.setattr(acme, "__version__", "0.6.1")
    with pytest.warns(UserWarning, match="is made for dm-acme 0.4.0, and this is 0.6.1: .* pip install dm-acme==0.4.0"):
        importlib.reload(boonta.nodes.acme)


CODE = """
import acme, numpy as np
from boonta.benchmarks.peers import acme_agents as peers
from acme.testing import fakes

discrete = fakes.DiscreteEnvironment(num_actions=3, obs_shape=(4, 2), obs_dtype=np.float32)
real = fakes.ContinuousEnvironment(action_dim=2, observation_dim=3, bounded=True)
for name, make in peers.MAKERS.items():
    parts = make(acme.make_environment_spec(real if name == "sac" else discrete))
    assert {"builder", "networks", "policy_network"} <= set(parts), name
print("made", *peers.MAKERS)
"""


def test_all_four_builders_are_made():
    """In a process of its own, since the aliases stay in JAX."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert "made dqn impala r2d2 sac" in done.stdout, done.stderr
