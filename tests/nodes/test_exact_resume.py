"""A fused program that is interrupted and goes on has the same bits as one that never was."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.envs.jax.catch import Catch
from boonta.nodes.anakin import Anakin
from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.snapshots.store import numbers
from boonta.nodes.watch.evaluation import NONE
from boonta.nodes.watch.stopping import StopRule
from boonta.tests.helpers.damage import flip
from boonta.tests.helpers.fused import ENV, agent, node
from boonta.tests.helpers.members import population

pytestmark = pytest.mark.once
unoptimised = pytest.mark.unoptimised  # The bits that are compared are of one program.

Make = Callable[[pathlib.Path, int], Anakin]


def bits(anakin: Anakin) -> dict[str, tuple]:
    """All of the state, by the names of its leaves."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(anakin._state)
    arrays = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}


def run(make: Make, folder: pathlib.Path, updates: int) -> Anakin:
    anakin = make(folder, updates)
    anakin.start()
    return run_on(anakin, updates)


def run_on(anakin: Anakin, updates: int) -> Anakin:
    while anakin._updates < updates:
        anakin.step()
    anakin.close()
    return anakin


def of_kind(kind: str) -> Make:
    return lambda folder, updates: node(folder, updates, kind)


def members(folder: pathlib.Path, updates: int) -> Anakin:
    return population(folder.parent, stop=StopRule(updates=updates))


KINDS = {kind: of_kind(kind) for kind in ("queue", "replay", "several", "impala", "muzero")} | {"members": members}


@unoptimised
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_interrupted_in_between_it_has_the_same_bits_in_the_end(tmp_path, make):
    once = make(tmp_path / "once" / "checkpoints", 16)
    once.start()
    while once._updates < 8:
        once.step()
    once._save_beside()
    once._saver.settle()
    before = bits(once)
    shutil.copytree(tmp_path / "once", tmp_path / "twice")
    run_on(once, 16)
    twice = run(make, tmp_path / "twice" / "checkpoints", 16)
    assert before != bits(once) == bits(twice)
    learner = map(np.asarray, jax.tree.leaves(once._state.learner))
    assert all(np.all(np.isfinite(leaf)) for leaf in learner)  # All NaNs would be alike.
    assert twice._env_steps == once._env_steps and twice._counters() == once._counters()
    assert counters(twice) == counters(once) == once._counters()
    assert counters(once)["episodes"] > 0 and not twice.warnings


def counters(anakin: Anakin) -> dict[str, float]:
    """Those of the newest checkpoint."""
    return Checkpointer(pathlib.Path(anakin._state_folder)).restore(anakin._state.learner)[1]


def be_killed(folder: str, kind: str) -> None:
    """Called in a process that is killed: it saves after each dispatch."""
    anakin = node(folder, 10**9, kind, save_every_s=0.0)
    anakin.start()
    while True:
        anakin.step()


@unoptimised
@pytest.mark.parametrize("kind", ["queue", "replay"])
def test_killed_while_it_saves_it_has_the_same_bits_in_the_end(tmp_path, kind):
    code = f"from boonta.tests.nodes.test_exact_resume import be_killed; be_killed({str(tmp_path)!r}, {kind!r})"
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "JAX_PLATFORMS": "cpu"})
    deadline = time.monotonic() + 240
    while len(numbers(tmp_path)) < 3:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    updates = max(numbers(tmp_path)) + 40
    assert bits(run(of_kind(kind), tmp_path, updates)) == bits(run(of_kind(kind), tmp_path / "once", updates))


@unoptimised
def test_a_damaged_snapshot_costs_what_came_after_the_one_before_and_changes_no_bit(tmp_path):
    for updates in (4, 8):
        run(of_kind("replay"), tmp_path, updates)
    (largest,) = sorted((tmp_path / "8" / "rest").rglob("*"), key=lambda path: path.stat().st_size)[-1:]
    flip(largest)
    again = node(tmp_path, 12, "replay")
    again.start()
    assert again._updates == 4
    assert bits(run(of_kind("replay"), tmp_path, 12)) == bits(run(of_kind("replay"), tmp_path / "once", 12))


@unoptimised
def test_what_does_not_fit_starts_afresh_with_a_word(tmp_path):
    before = run(of_kind("queue"), tmp_path, 8)
    other = node(tmp_path, 16, num_envs=8)
    other.start()
    assert other._updates == 8 and other._env_steps == before._env_steps + 8
    (warning,) = other.report()["warnings"]
    assert "environments and table start afresh, since those saved don't fit: " in warning
    assert "stage/env/key is (16, 2) there, (8, 2) here" in warning


@unoptimised
def test_a_checkpoint_of_a_learner_alone_is_gone_on_from_with_fresh_environments(tmp_path):
    Checkpointer(tmp_path).save(8, agent().update.init(None), {"updates": 8.0, "env_steps": 100.0})
    anakin = node(tmp_path, 16)
    anakin.start()
    assert anakin._updates == 8 and anakin._env_steps == 100 + 16


@dataclasses.dataclass(frozen=True)
class Typed(Catch):
    """Keeps a key of JAX's newer type in its state."""

    def init(self, key):
        state, timestep = super().init(key)
        return (state, jax.random.wrap_key_data(jnp.uint32([1, 2]))), timestep

    def step(self, state, action):
        inner, timestep = super().step(state[0], action)
        return (inner, jax.random.fold_in(state[1], 1)), timestep


@unoptimised
def test_keys_of_the_newer_type_come_back(tmp_path):
    def make(folder: pathlib.Path, updates: int) -> Anakin:
        env = Typed(rows=ENV.rows, columns=ENV.columns)
        stop = StopRule(updates=updates)
        return Anakin("anakin", agent(), env, folder=str(folder), evaluation=NONE, devices=1, num_envs=16, stop=stop)

    def keys(anakin: Anakin) -> np.ndarray:
        return np.asarray(jax.random.key_data(anakin._state.stage.env[1]))

    once, _ = run(make, tmp_path / "once", 16), run(make, tmp_path / "twice", 8)
    np.testing.assert_array_equal(keys(run(make, tmp_path / "twice", 16)), keys(once))
