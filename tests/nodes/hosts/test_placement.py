"""Sebulba on simulated devices: their division, which params act when, the same run on two devices as on eight."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import jax
import numpy as np
import pytest

from boonta.agents.base import Table
from boonta.envs.catch import Catch
from boonta.nodes.acting.lock_step import LockStep
from boonta.nodes.actor import Actor
from boonta.nodes.hosts.placement import Placed, Placement, make_mesh, split
from boonta.nodes.learner import Learner
from boonta.nodes.variables import Colocated, DeviceVariables
from boonta.programs.wiring.interpreters.anakin import fused
from boonta.programs.wiring.interpreters.sebulba import build
from boonta.programs.wiring.launch import Program, Run, group
from boonta.tests.helpers import tiny
from boonta.tests.helpers.deadline import DEADLINE_S

pytestmark = pytest.mark.once

DEVICES = ["d0", "d1", "d2", "d3"]


def program(placement: Placement, folder: str = "unused", batch_size: int = 12, each: int = 12) -> Program:
    """A program of threads, with `each` environments in each of them."""
    env = Catch(rows=3, columns=3)  # An episode takes two steps, so that the first updates have rewards.
    groups = [group(Learner), group(Actor, num_envs=each * placement.threads)]
    return Program("tiny", Run(workdir=folder, placement=placement), tiny.make(env.spec, batch_size), env, groups)


def train(placement: Placement, updates: int, seen: int = 0) -> dict:
    """Runs for some updates: the params of each version, the versions of rows by block in the learner's order, …

    And on until a block comes whose last row was acted with params no older than version `seen`.
    """
    monitor, nodes = build(program(placement, tempfile.mkdtemp()))
    del monitor
    learner, queue, variables = nodes[0], nodes[0]._replay, nodes[0]._variables
    params, blocks, rows, metrics, get, put = {}, [], [], {}, queue.get, variables.put

    def spy_get(timeout_s):
        pieces = get(timeout_s)
        if pieces:
            blocks.append(pieces)
            rows.append(np.asarray(pieces[0].shards[0].version)[:, 0])
        return pieces

    def spy_put(version, nest):
        params[version] = np.asarray(nest["linear"]["w"])
        metrics[version] = dict(learner.report()["metrics"])
        put(version, nest)

    queue.get, variables.put = spy_get, spy_put
    threads = [threading.Thread(target=node.run, daemon=True) for node in nodes]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 200
    while max(params, default=0) <= updates or max(each[-1] for each in rows) < seen:
        assert time.monotonic() < deadline, f"{len(rows)} blocks and version {max(params, default=0)} in 200 s"
        assert all(node._error is None for node in nodes), [node._error for node in nodes]
        time.sleep(0.05)
    for node in nodes:
        node.stop()
    for thread in threads:
        thread.join(timeout=DEADLINE_S)
        assert not thread.is_alive()
    devices = {leaf.devices().pop() for pieces in blocks for leaf in jax.tree.leaves(pieces[0].shards[-1])}
    return {"params": params, "rows": rows, "metrics": metrics, "devices": devices}


def test_lock_step_is_repeatable_and_exact():
    """Two groups of 12 whose blocks are an update each: blocks 2 b and 2 b + 1 are block b of either."""
    placement = Placement(lag=1)
    one, two = train(placement, 4), train(placement, 4)
    for version in range(5):
        np.testing.assert_array_equal(one["params"][version], two["params"][version])
    assert np.any(one["params"][4] != one["params"][3])
    for number, rows in enumerate(one["rows"][:5]):
        before = max(0, number - 2 - 1) if number > 1 else 0  # The row shared with the group's block before.
        np.testing.assert_array_equal(rows, [before] + [max(0, number - 1)] * 4)
    # Update 5 learned from blocks of version 3, whose first row is of version 1; its metrics come after its params.
    assert one["metrics"][5]["policy_lag_max"] == 3.0 and one["metrics"][5]["policy_lag"] == pytest.approx(1.4)


def test_free_running_takes_the_newest_and_measures_its_lag():
    ran = train(Placement(), 6, seen=1)  # When an actor sees its first update is the scheduler's choice.
    assert all(rows[-1] <= number for number, rows in enumerate(ran["rows"]))
    assert ran["metrics"][6]["policy_lag"] >= 0.0


def test_two_and_six_devices_learn_as_one_and_one():
    """Simulated devices must be requested before JAX starts, so this runs in a process of its own."""
    code = textwrap.dedent(
        """
        import jax, numpy as np
        from boonta.nodes.hosts.placement import Placement
        from boonta.tests.nodes.hosts.test_placement import train
        one = train(Placement(acting=1, learning=1, threads=2, lag=2), 4)
        many = train(Placement(acting=2, learning=6, threads=1, lag=2), 4)
        assert one["devices"] == {jax.devices()[0]} and many["devices"] == {jax.devices()[5]}
        assert np.any(one["params"][4] != one["params"][3])
        for version in range(5):
            np.testing.assert_allclose(one["params"][version], many["params"][version], rtol=1e-5, atol=1e-7)
        for rows in zip(one["rows"][:4], many["rows"][:4]):
            np.testing.assert_array_equal(*rows)
        """
    )
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=250, env=environment)


def test_an_update_takes_params_of_exactly_so_many_updates_ago():
    """With 3 groups of 4 and batches of 8: two blocks an update; block 1 of group 1 is the fifth, for update 3."""
    step = LockStep(lag=1, groups=3, group_size=4, batch_size=8)
    assert [step.updates(group, block) for block in range(3) for group in range(3)] == [0, 0, 0, 0, 1, 1, 2, 2, 3]
    assert [step.updates(3 + group, 2) for group in range(3)] == [2, 2, 3]  # Those of the second host.
    large = LockStep(lag=0, groups=2, group_size=16, batch_size=8)  # Two updates a block.
    assert [large.updates(group, block) for block in range(2) for group in range(2)] == [0, 2, 4, 6]


def test_params_are_kept_as_long_as_lock_step_may_ask():
    (device,) = jax.devices()[:1]
    variables = DeviceVariables([device], history=1)
    place = Colocated(variables, device)
    assert place.fetch(0.0) is None
    for version in (7, 8, 9):  # A run that was resumed.
        variables.put(version, {"w": jax.device_put(np.float32(version))})
    assert place.fetch(0.0) == (9, {"w": 9.0})
    assert variables.get(device, 1, 0.0) == (8, {"w": 8.0})
    assert variables.get(device, 3, 0.0) is None
    with pytest.raises(KeyError):
        variables.get(device, 0, 0.0)


def test_the_learner_may_reuse_what_it_has_put():
    (device,) = jax.devices()[:1]
    variables, params = DeviceVariables([device]), {"w": jax.device_put(np.ones(4, np.float32))}
    variables.put(0, params)
    jax.block_until_ready(jax.jit(lambda nest: jax.tree.map(lambda x: 2 * x, nest), donate_argnums=0)(params))
    assert params["w"].is_deleted()
    np.testing.assert_array_equal(variables.get(device, None, 0.0)[1]["w"], np.ones(4))


def test_time_steps_lie_on_the_acting_device():
    device = jax.devices()[-1]
    env = Placed(Catch(), device)(2, 0)
    for timestep in (env.reset(), env.step(np.zeros(2, np.int32))):
        assert all(leaf.devices() == {device} for leaf in jax.tree.leaves(timestep))
    assert env.num_envs == 2 and env.episodes() == []


@pytest.mark.parametrize(("placement", "present", "acting", "learning"), [
    (Placement(), DEVICES[:1], ["d0"], ["d0"]),  # It does both.
    (Placement(), DEVICES, ["d3"], ["d0", "d1", "d2"]),
    (Placement(acting=2, learning=1), DEVICES, ["d1", "d2"], ["d0"]),
    (Placement(acting=3), DEVICES, ["d1", "d2", "d3"], ["d0"]),
])  # fmt: skip
def test_devices_are_split(placement, present, acting, learning):
    assert split(placement, present) == (acting, learning)


@pytest.mark.parametrize(("settings", "message"), [
    ({"acting": 9, "learning": 1}, r"placement.acting is 9 and placement.learning 1; this process has \d+ cpu devices"),
    ({"learning": 99}, r"placement.acting is 1 and placement.learning 99; this process has \d+ cpu devices"),
    ({"each": 5}, "5 environments step together, and batch_size is 12"),
    ({"threads": 0}, "placement.threads is 0; it must be at least 1"),
    ({"lag": -1}, "placement.lag is -1; it must be at least 0, or none to run freely"),
])  # fmt: skip
def test_what_cannot_work_is_refused_before_anything_starts(settings, message):
    with pytest.raises(ValueError, match=message):
        each = {"each": 12, **settings}["each"]
        chosen = {name: value for name, value in settings.items() if name != "each"}
        build(program(Placement(**chosen), each=each))


def test_lock_step_over_a_replay_table_and_a_queue_among_several_tables_are_refused():
    env = Catch()
    agent = tiny.make(env.spec)
    table = Table("trajectories", "replay", 5, 4, 8, size=100, sampler="uniform")
    groups = [group(Learner), group(Actor)]
    made = Program("tiny", Run(placement=Placement(lag=1)), agent._replace(tables=(table,)), env, groups)
    with pytest.raises(
        ValueError, match="placement.lag is 1; lock-step needs a queue that actors fill, and 'trajectories' is a re"
    ):
        build(made)
    queue = Table("others", "queue", 5, 4, 8, size=100, share=0.5)
    halves = (dataclasses.replace(table, share=0.5), queue)
    made = Program("tiny", Run(), agent._replace(tables=halves), env, groups)
    with pytest.raises(
        ValueError, match=r"tables are \['trajectories', 'others'\]; in one process a queue must be the"
    ):
        build(made)


def test_lock_step_is_refused_where_the_agent_makes_several_updates_at_once():
    env = Catch()
    agent = tiny.make(env.spec)
    agent = agent._replace(update=agent.update._replace(at_once=8))
    made = Program("tiny", Run(placement=Placement(lag=1)), agent, env, [group(Learner), group(Actor)])
    with pytest.raises(ValueError, match="{'updates_per_step': 8, 'publish_every': 1}: lock-step needs 1 of both"):
        build(made)


def test_a_role_that_writes_has_one_group():
    env = Catch()
    groups = [group(Learner), group(Actor), group(Actor, label="more")]
    program = Program("tiny", Run(), tiny.make(env.spec), env, groups)
    with pytest.raises(ValueError, match="--launch sebulba has one group of actor nodes; the program has actor and mo"):
        build(program)
    with pytest.raises(ValueError, match="--launch anakin has one group of actor nodes; the program has actor and mor"):
        fused(program)


@pytest.mark.parametrize(
    ("devices", "size", "message"),
    [(99, 8, r"learner devices is 99; this process has \d+"), (0, 8, "learner devices is 0")],
)
def test_impossible_meshes_are_refused(devices, size, message):
    with pytest.raises(ValueError, match=message):
        make_mesh(devices, size)
