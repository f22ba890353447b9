"""Two learners, here processes that meet on loopback, make the updates of one learner with the devices of both."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from boonta.tests.helpers import namespaces
from boonta.tests.helpers.apart import free_ports

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]
HELPER = pathlib.Path(__file__).parents[2] / "helpers" / "learning_together.py"
LIMIT_S = 400.0
# Starts two learners where the machine's own name has an address that no device has.
ELSEWHERE = """
hostname elsewhere && mount --bind "$0" /etc/hosts && ip link set lo up || exit 3
"$@" 0 & other=$!
"$@" 1 && wait $other
"""


def started(*words: object, devices: int = 1) -> subprocess.Popen:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    return subprocess.Popen([str(word) for word in words], env=environment)


def learn(folder: pathlib.Path, agent: str, updates: int, learners: int, devices: int) -> list[list[np.ndarray]]:
    """The leaves of each learner's state after so many updates."""
    words = [sys.executable, HELPER, agent, updates, folder, free_ports(1), learners]
    processes = [started(*words, i, devices=devices) for i in range(learners)]
    try:
        assert [process.wait(LIMIT_S) for process in processes] == [0] * learners
    finally:
        for process in processes:
            process.kill()
    return [leaves(folder / f"state-{learners}-{i}.npz") for i in range(learners)]


def leaves(file: pathlib.Path) -> list[np.ndarray]:
    with np.load(file) as found:
        return [found[name] for name in found.files]


@pytest.mark.parametrize("agent", ["dqn", "impala", pytest.param("muzero", marks=pytest.mark.slow)])
def test_two_learners_make_the_updates_of_one_with_the_devices_of_both(tmp_path, agent):
    (first, second), (one,) = learn(tmp_path, agent, 4, 2, 1), learn(tmp_path, agent, 4, 1, 2)
    for mine, others, whole in zip(first, second, one, strict=True):
        np.testing.assert_array_equal(mine, others)
        np.testing.assert_allclose(mine, whole, rtol=1e-6, atol=1e-7)
    untrained = leaves(tmp_path / "start-1-0.npz")
    assert any(np.any(leaf != old) for leaf, old in zip(first, untrained, strict=True))


@pytest.mark.skipif(bool(namespaces.missing()), reason=namespaces.missing())
def test_learners_of_one_machine_meet_on_loopback_though_its_name_has_another_address(tmp_path):
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n10.99.0.1 elsewhere\n")
    apart = ["unshare", "--uts", "--mount", "--net", "sh", "-c", ELSEWHERE, tmp_path / "hosts"]
    both = started(*apart, sys.executable, HELPER, "dqn", 1, tmp_path, free_ports(1), 2)
    try:
        assert both.wait(LIMIT_S) == 0
    finally:
        both.kill()
    assert all((tmp_path / f"state-2-{i}.npz").exists() for i in range(2))
