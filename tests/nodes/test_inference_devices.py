"""The inference node on several devices."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from boonta.agents.base import Slots
from boonta.envs.base import FIRST, MID, TimeStep
from boonta.nodes.acting.local import Acting, jit_policy
from boonta.nodes.variables import pack
from boonta.nodes.watch.stopwatch import Stopwatch
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.inference import AGENTS, RECURRENT, acting_params, frames, inference, leaves

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


def act_on_two_devices() -> None:
    """Four groups act as each would alone, two on each device, also with newer params; run by the next test."""
    agent = AGENTS[RECURRENT]()
    policy, params = jit_policy(agent.policy), {3: acting_params(agent), 9: acting_params(agent, 1)}
    node = inference(agent, deadline_s=0.0)
    seeds = {f"actor/{i}/0": i for i in range(4)}
    alone = {group: Acting(policy, Slots(2), seed, Stopwatch()) for group, seed in seeds.items()}
    for group, seed in seeds.items():
        node.register(group, Slots(2), seed)
    assert [sorted(lane.groups) for lane in node._lanes] == [["actor/0/0", "actor/2/0"], ["actor/1/0", "actor/3/0"]]
    assert len(node.tasks) == 3
    versions = []
    for t in range(4):
        timestep = TimeStep(*frames(2, FIRST if t == 0 else MID, t))
        for group in seeds:
            node.act(group, t, leaves(timestep), timeout_s=0.0)
        for serve in node.tasks[:2]:
            serve()
        for group in seeds:
            version, action, *_ = node.act(group, t, leaves(timestep), timeout_s=0.0)
            np.testing.assert_array_equal(action, alone[group](params[version], timestep)[0])
            versions.append(version)
        for lane in node._lanes:
            for group in lane.groups.values():
                assert {leaf.device for leaf in jax.tree.leaves(group.state)} == {lane.device}
        if t == 1:
            node._variables.put(9, pack(params[9]))
            node._refresh()
    assert versions == [3] * 8 + [9] * 8
    node.register("actor/0/0", Slots(2), 0)
    assert [len(lane.groups) for lane in node._lanes] == [2, 2] and node.report()["counts"]["inferences"] == 8


def test_each_device_acts_for_its_own_groups():
    code = "from boonta.tests.nodes import test_inference_devices as t; t.act_on_two_devices()"
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_S, env=environment)
