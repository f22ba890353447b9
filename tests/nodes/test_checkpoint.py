from __future__ import annotations

import os
import pathlib
import resource
import subprocess
import sys
from concurrent import futures
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from boonta.nodes.checkpoint import Checkpointer
from boonta.nodes.snapshots.store import Retention
from boonta.tests.helpers.damage import DAMAGES, flip
from boonta.tests.helpers.deadline import DEADLINE_S


class State(NamedTuple):
    params: dict
    updates: jnp.ndarray


def state(value: float, width: int = 3) -> State:
    return State({"linear": {"w": jnp.full((2, width), value)}}, jnp.asarray(int(value)))


def test_the_newest_comes_back_with_its_counters_and_only_some_are_kept(tmp_path):
    saver = Checkpointer(tmp_path / "checkpoints", Retention(newest=2))
    for step in (1, 2, 3):
        saver.save(step, state(step), {"env_steps": 10.0 * step})
    restored, counts = Checkpointer(tmp_path / "checkpoints").restore(state(0))
    assert isinstance(restored, State)
    np.testing.assert_array_equal(restored.params["linear"]["w"], np.full((2, 3), 3.0))
    assert counts == {"env_steps": 30.0}
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir() if path.name.isdigit()) == ["2", "3"]


def test_two_threads_save_at_once(tmp_path):
    def save(name: str) -> int:
        saver = Checkpointer(tmp_path / name)
        for step in range(1, 11):
            saver.save(step, state(step), {"updates": step})
        return int(saver.restore(state(0))[0].updates)

    with futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(save, ("learner", "best"))) == [10, 10]


def test_anothers_is_gone_on_from_until_there_is_one_of_its_own(tmp_path):
    Checkpointer(tmp_path / "other").save(7, state(7), {"updates": 7.0})
    own = Checkpointer(tmp_path / "own", start_from=str(tmp_path / "other"))
    restored, counts = own.resume(state(0))
    assert int(restored.updates) == 7 and counts == {"updates": 7.0}
    own.save(8, state(8), {"updates": 8.0})
    restored, counts = Checkpointer(tmp_path / "own", start_from=str(tmp_path / "other")).resume(state(0))
    assert int(restored.updates) == 8 and counts == {"updates": 8.0}


def test_one_that_is_not_the_newest_comes_back_by_its_own_folder(tmp_path):
    folder = tmp_path / "checkpoints"
    saver = Checkpointer(folder)
    for step in (1, 2, 3):
        saver.save(step, state(step), {"updates": float(step)})
    restored, counts = Checkpointer(folder / "2").restore(state(0))
    assert int(restored.updates) == 2 and counts == {"updates": 2.0}
    restored, counts = Checkpointer(tmp_path / "own", start_from=str(folder / "1")).resume(state(0))
    assert int(restored.updates) == 1 and counts == {"updates": 1.0}
    flip(folder / "2" / "state" / "_METADATA")
    with pytest.raises(ValueError, match=r"checkpoint .*/checkpoints/2 is not sound: state/_METADATA is altered"):
        Checkpointer(folder / "2").restore(state(0))


def check_replicated(folder: pathlib.Path) -> None:
    """Called in a process that has two devices."""
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    both = jax.device_put(state(3), NamedSharding(mesh, PartitionSpec()))
    Checkpointer(folder).save(1, both, {})  # A process's first: orbax would have failed that one alone.
    restored, _ = Checkpointer(folder).restore(both)
    np.testing.assert_array_equal(restored.params["linear"]["w"], np.full((2, 3), 3.0))
    assert restored.updates.sharding.device_set == both.updates.devices() and len(both.updates.devices()) == 2


def test_what_several_devices_hold_alike_comes_back(tmp_path):
    code = f"from boonta.tests.nodes.test_checkpoint import *; check_replicated(pathlib.Path({str(tmp_path)!r}))"
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_S, env=environment)


def test_a_checkpoint_has_a_copy_of_the_runs_settings(tmp_path):
    (tmp_path / "config.json").write_text('{"program": "impala"}')
    Checkpointer(tmp_path / "checkpoints").save(1, state(1), {"updates": 1.0})
    assert (tmp_path / "checkpoints" / "1" / "config.json").read_text() == '{"program": "impala"}'
    assert Checkpointer(tmp_path / "checkpoints").restore(state(0))[1] == {"updates": 1.0}
    flip(tmp_path / "checkpoints" / "1" / "config.json")
    with pytest.raises(ValueError, match="config.json is altered"):
        Checkpointer(tmp_path / "checkpoints").latest()


def test_none_is_said_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint in"):
        Checkpointer(tmp_path).restore(state(0))


def test_another_networks_checkpoint_is_refused_by_leaf(tmp_path):
    Checkpointer(tmp_path).save(1, state(1), {})
    with pytest.raises(ValueError, match=r"another network's: params/linear/w is \(2, 3\) there, \(2, 5\) here"):
        Checkpointer(tmp_path).restore(state(0, width=5))


def test_a_network_with_a_layer_more_or_less_is_another_one(tmp_path):
    deep = state(1)._replace(params={"linear": {"w": jnp.ones((2, 3))}, "top": {"b": jnp.ones(3)}})
    for saved, like, message in (
        (deep, state(0), r"params/top/b is \(3,\) there, missing here"),
        (state(0), deep, r"params/top/b is missing there, \(3,\) here"),
    ):
        folder = tmp_path / str(len(saved.params))
        Checkpointer(folder).save(1, saved, {})
        with pytest.raises(ValueError, match=message):
            Checkpointer(folder).restore(like)


def test_a_folder_that_is_only_read_is_not_made(tmp_path):
    assert Checkpointer(tmp_path / "nowhere").latest() is None
    assert not (tmp_path / "nowhere").exists()


def test_the_rest_comes_back_where_there_is_some(tmp_path):
    like = {"key": np.zeros(2, np.uint32), "none": (), "table": [np.zeros((3, 2), bool)]}
    rest = {"key": np.uint32([7, 8]), "none": (), "table": [np.eye(3, 2, dtype=bool)]}
    saver = Checkpointer(tmp_path)
    assert saver.rest(like) is None
    saver.save(1, state(1), {}, rest)
    again = Checkpointer(tmp_path)
    again.resume(state(0))
    restored = again.rest(like)
    assert jax.tree.structure(restored) == jax.tree.structure(rest)
    jax.tree.map(np.testing.assert_array_equal, restored, rest)
    with pytest.raises(ValueError, match=r"key is \(2,\) there, \(3,\) here"):
        again.rest({**like, "key": np.zeros(3, np.uint32)})
    again.save(2, state(2), {})
    assert again.rest(like) is None
    other = Checkpointer(tmp_path / "other", start_from=str(tmp_path))
    other.resume(state(0))
    assert other.rest(like) is None


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_whichever_file_of_the_newest_is_damaged_the_one_before_is_resumed(tmp_path, damage):
    saver = Checkpointer(tmp_path / "checkpoints")
    for step in (1, 2):
        saver.save(step, state(step), {"updates": float(step)}, {"table": np.full(100, step)})
    newest = tmp_path / "checkpoints" / "2"
    damaged = 0
    for path in sorted(path for path in newest.rglob("*") if path.is_file()):
        content = path.read_bytes()
        if not damage(path):
            continue
        warnings: list[str] = []
        restored, counts = Checkpointer(tmp_path / "checkpoints", warn=warnings.append).restore(state(0))
        assert (int(restored.updates), counts) == (1, {"updates": 1.0}), path
        np.testing.assert_array_equal(restored.params["linear"]["w"], np.full((2, 3), 1.0))
        (warning,) = warnings
        assert f"checkpoint 1 is used, since newer ones are not sound: {newest}: {path.relative_to(newest)} " in warning
        path.write_bytes(content)
        damaged += 1
    assert damaged > 12
    assert Checkpointer(tmp_path / "checkpoints").latest() == 2


def test_where_none_is_sound_nothing_starts_afresh(tmp_path):
    saver = Checkpointer(tmp_path)
    saver.save(1, state(1), {})
    saver.save(2, state(2), {})
    (tmp_path / "1" / "_CHECKPOINT_METADATA").unlink()
    (tmp_path / "2" / "MANIFEST.json").unlink()
    with pytest.raises(ValueError, match="no checkpoint in .* is sound: .*/2: MANIFEST.json is missing.*/1: _CHECK"):
        Checkpointer(tmp_path, start_from=str(tmp_path / "other")).resume(state(0))


def test_what_is_started_from_is_verified_too(tmp_path):
    saver = Checkpointer(tmp_path / "other")
    saver.save(1, state(1), {})
    saver.save(2, state(2), {})
    flip(tmp_path / "other" / "2" / "counts" / "metadata")
    warnings: list[str] = []
    own = Checkpointer(tmp_path / "own", start_from=str(tmp_path / "other"), warn=warnings.append)
    assert int(own.resume(state(0))[0].updates) == 1
    assert "counts/metadata is altered" in warnings[0]


def test_a_run_that_fell_back_and_goes_on_replaces_what_it_passed_over(tmp_path):
    saver = Checkpointer(tmp_path)
    for step in (1, 2, 3):
        saver.save(step, state(step), {})
    flip(tmp_path / "3" / "counts" / "metadata")
    again = Checkpointer(tmp_path, warn=lambda warning: None)
    assert int(again.resume(state(0))[0].updates) == 2
    again.save(3, state(30), {})
    assert int(Checkpointer(tmp_path).restore(state(0))[0].updates) == 30


def test_a_full_disk_fails_the_save_and_leaves_the_older_checkpoint(tmp_path):
    saver = Checkpointer(tmp_path)
    saver.save(1, state(1), {"updates": 1.0})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # No file may grow past it, as on a full disk.
    try:
        noise = np.random.default_rng(0).normal(size=(2, 100_000))  # Noise does not compress.
        with pytest.raises(OSError, match="checkpoint 2 could not be saved"):
            saver.save(2, State({"linear": {"w": jnp.asarray(noise)}}, jnp.asarray(2)), {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    restored, counts = Checkpointer(tmp_path).restore(state(0))
    assert counts == {"updates": 1.0} and int(restored.updates) == 1
