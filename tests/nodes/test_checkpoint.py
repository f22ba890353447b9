from __future__ import annotations

import resource
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from nodes.checkpoint import Checkpointer


class State(NamedTuple):
    params: dict
    updates: jnp.ndarray


def state(value: float, width: int = 3) -> State:
    return State({"linear": {"w": jnp.full((2, width), value)}}, jnp.asarray(int(value)))


def test_the_newest_comes_back_with_its_counters_and_only_some_are_kept(tmp_path):
    saver = Checkpointer(tmp_path / "checkpoints", keep=2)
    for step in (1, 2, 3):
        saver.save(step, state(step), {"env_steps": 10.0 * step})
    restored, counts = Checkpointer(tmp_path / "checkpoints").restore(state(0))
    assert isinstance(restored, State)
    np.testing.assert_array_equal(restored.params["linear"]["w"], np.full((2, 3), 3.0))
    assert counts == {"env_steps": 30.0}
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir() if path.name.isdigit()) == ["2", "3"]


def test_anothers_is_gone_on_from_until_there_is_one_of_its_own(tmp_path):
    Checkpointer(tmp_path / "other").save(7, state(7), {"updates": 7.0})
    own = Checkpointer(tmp_path / "own", start_from=str(tmp_path / "other"))
    restored, counts = own.resume(state(0), None)
    assert int(restored.updates) == 7 and counts == {"updates": 7.0}
    own.save(8, state(8), {"updates": 8.0})
    restored, counts = Checkpointer(tmp_path / "own", start_from=str(tmp_path / "other")).resume(state(0), None)
    assert int(restored.updates) == 8 and counts == {"updates": 8.0}


def test_none_is_said_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint in"):
        Checkpointer(tmp_path).restore(state(0))


def test_another_networks_checkpoint_is_refused_by_leaf(tmp_path):
    Checkpointer(tmp_path).save(1, state(1), {})
    with pytest.raises(ValueError, match=r"another network's: params/linear/w is \(2, 3\) there, \(2, 5\) here"):
        Checkpointer(tmp_path).restore(state(0, width=5))


def test_a_full_disk_fails_the_save_and_leaves_the_older_checkpoint(tmp_path):
    saver = Checkpointer(tmp_path)
    saver.save(1, state(1), {"updates": 1.0})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))  # no file may grow past it, as on a full disk
    try:
        noise = np.random.default_rng(0).normal(size=(2, 100_000))  # does not compress
        with pytest.raises(OSError, match="checkpoint 2 could not be saved"):
            saver.save(2, State({"linear": {"w": jnp.asarray(noise)}}, jnp.asarray(2)), {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    restored, counts = Checkpointer(tmp_path).restore(state(0))
    assert counts == {"updates": 1.0} and int(restored.updates) == 1
