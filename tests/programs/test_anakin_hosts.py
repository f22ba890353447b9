"""A fused program on several hosts, here processes that meet on loopback: it learns as on one with as many devices."""

from __future__ import annotations

import signal

import jax
import numpy as np
import pytest

from boonta.nodes import metrics
from boonta.nodes.checkpoint import Checkpointer
from boonta.tests.helpers import fused
from boonta.tests.helpers.runs import saved
from boonta.tests.helpers.units import Units

pytestmark = pytest.mark.once


def units(folder, hosts: int, *flags: str, **settings) -> Units:
    return Units(folder, hosts, *flags, program="fused_program.py", **settings)


def run(folder, hosts: int, *flags: str, **settings) -> None:
    with units(folder, hosts, *flags, **settings) as started:
        assert started.codes() == [0] * hosts, "".join(map(started.output, range(hosts)))


def checkpoint(folder, kind: str) -> tuple[list[np.ndarray], dict[str, float]]:
    """The leaves of the newest checkpoint's learner state, and the counters."""
    init = fused.agent(kind).update.init
    state, counts = Checkpointer(folder / "checkpoints").restore(jax.jit(init)(jax.random.PRNGKey(0)))
    return list(map(np.asarray, jax.tree.leaves(state))), counts


def require_equal(folder, updates: int, hosts: int, devices: int = 1) -> None:
    """All devices of all hosts hold the same learner state after the last update, bit by bit."""
    held = [np.load(folder / f"end-{updates}-{index}.npz") for index in range(hosts)]
    copies = [[host[name] for name in host.files] for host in held]
    assert len(copies[0]) % devices == 0 and any(np.any(leaf != 0) for leaf in copies[0])
    for i, leaf in enumerate(copies[0][::devices]):
        for host in copies:
            for copy in host[i * devices : (i + 1) * devices]:
                assert (copy.dtype, copy.shape, copy.tobytes()) == (leaf.dtype, leaf.shape, leaf.tobytes())


@pytest.mark.parametrize(
    "kind", ["replay", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("several", "impala"))]
)
def test_two_hosts_learn_as_one_with_two_devices_also_in_two_parts(tmp_path, kind):
    flags = ("--kind", kind)
    run(tmp_path / "two", 2, *flags, "--stop.updates", "20")
    run(tmp_path / "two", 2, *flags, "--stop.updates", "40")
    run(tmp_path / "one", 1, *flags, "--stop.updates", "40", devices=2)
    (two, counts), (one, others) = checkpoint(tmp_path / "two", kind), checkpoint(tmp_path / "one", kind)
    require_equal(tmp_path / "two", 40, hosts=2)
    for ours, theirs in zip(two, one, strict=True):
        np.testing.assert_array_equal(ours, theirs)  # Of two addends, in any order, the sum is the same.
    assert any(np.any(leaf != 0) for leaf in two)
    same = ("updates", "env_steps", "frames", "episodes")
    assert [counts[name] for name in same] == [others[name] for name in same] and counts["updates"] == 40
    last, second = (metrics.read(tmp_path / "two" / folder)[-1] for folder in ("", "hosts/1"))
    assert second["updates"] == 40
    assert [last[name] for name in same] == [counts[name] for name in same]
    assert 0 < last["start_s/connecting"] < last["start_s"]
    assert last["eval_version"] == 40 and saved(tmp_path / "two" / "checkpoints" / "best") in (0, 20, 40)
    assert not (tmp_path / "two" / "hosts" / "1" / "checkpoints").exists()


@pytest.mark.unoptimised  # The bits that are compared are of one program.
def test_a_host_that_is_told_to_end_ends_both_after_the_same_update_saved(tmp_path):
    with units(tmp_path / "run", 2, "--save-every-s", "1") as started:
        started.await_checkpoint()
        started.processes[1].send_signal(signal.SIGTERM)
        assert started.codes() == [1, 143], started.output() + started.output(1)
    assert "host 1 was asked to end; a checkpoint is saved" in started.output(0)
    ends = [metrics.read(tmp_path / "run" / name)[-1]["updates"] for name in ("", "hosts/1")]
    assert ends == [saved(tmp_path / "run")] * 2
    require_equal(tmp_path / "run", saved(tmp_path / "run"), hosts=2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["queue", "replay"])
def test_eight_devices_learn_the_same_however_hosts_have_them(tmp_path, kind):
    flags = ("--kind", kind, "--stop.updates", "20")
    for hosts in (1, 2, 4):
        run(tmp_path / str(hosts), hosts, *flags, devices=8 // hosts)
        require_equal(tmp_path / str(hosts), 20, hosts, 8 // hosts)
    (one, counts), *others = (checkpoint(tmp_path / str(hosts), kind) for hosts in (1, 2, 4))
    for leaves, counted in others:
        assert [counted[name] for name in ("updates", "env_steps", "episodes")] == [
            counts[name] for name in ("updates", "env_steps", "episodes")
        ]
        for ours, theirs in zip(leaves, one, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_populations_members_are_split_over_hosts(tmp_path):
    population = "../../programs/population.py"
    flags = ("--vary", "optimiser.learning_rate=1e-2,1e-3", "--seeds", "2", "--stop.updates", "200")
    folders = {"two": 2, "one": 1}
    for name, hosts in folders.items():
        own = {"devices": 3 - hosts, "program": population}
        with Units(tmp_path / name, hosts, *flags, "--evaluation.every-updates", "100", **own) as started:
            assert started.codes() == [0] * hosts, "".join(map(started.output, range(hosts)))
    two, one = (metrics.read(tmp_path / name, metrics.MEMBERS) for name in folders)
    # Four members after 12, 25, 50, 100 and 200 updates.
    assert len(two) == len(one) == 4 * 5 and {row["member"] for row in two} == {0, 1, 2, 3}
    for ours, theirs in zip(two, one):  # "return" is of the last dispatch, whose length is a matter of time.
        same = {"return": 0, "loss": 0}
        assert {**ours, **same} == {**theirs, **same} and ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
    assert saved(tmp_path / "two") == saved(tmp_path / "one") == 200
