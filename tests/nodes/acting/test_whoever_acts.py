"""Actors and reanalyzers write the same rows, whether they act themselves or an inference node acts for them."""

from __future__ import annotations

import subprocess
import sys

import jax
import numpy as np
import pytest
import tree

from boonta.agents import muzero
from boonta.agents.base import Steps, Table
from boonta.agents.groups import Torso
from boonta.agents.muzero.groups import SelfPlay
from boonta.envs.base import FIRST, MID
from boonta.nodes.acting import base as acting
from boonta.nodes.acting.base import Remote
from boonta.nodes.acting.playback import Playback
from boonta.nodes.acting.replayed import Replayed
from boonta.nodes.actor import Actor
from boonta.nodes.inference import Inference
from boonta.nodes.tables.queue import QueueTable
from boonta.nodes.variables import VariableServer, pack
from boonta.tests.helpers import tiny
from boonta.tests.helpers.deadline import DEADLINE_S
from boonta.tests.helpers.inference import ENV, acting_params

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]


def test_an_actor_writes_the_same_rows_whoever_acts():
    """The handle of an inference node, in one thread, with constant params."""
    agent = tiny.make(ENV.spec, batch_size=4, length=6)
    variables = VariableServer("variables")
    variables.put(5, pack(acting_params(agent)))
    node = Inference("inference", agent, ENV, variables)
    node.start()
    rows = []
    for handle, given in ((variables, agent), (Remote(node), acting.tables_only(agent))):
        queue = QueueTable(agent.tables[0])
        actor = Actor("actor/0", given, ENV, handle, queue, num_envs=4, threads=2, seed=1)
        actor.start()
        for _ in range(2 * 6):
            actor.step()
        rows.append([queue.get(1.0)[0].shards[0] for _ in range(2)])
    for local, remote in zip(*rows):
        tree.map_structure(np.testing.assert_array_equal, local._replace(extras=()), remote)
    assert "waiting for inference" in actor.stopwatch.seconds()


class Recorded(Playback):
    """A reanalyzer of the same recorded steps, again and again."""

    def make_env(self, num_envs, seed):
        size, rng = (8, *ENV.spec.observations.shape), np.random.default_rng(2)
        observation = rng.random(size).astype(ENV.spec.observations.dtype)
        step_type = np.array([FIRST, *[MID] * 7], np.int32)
        flat, action = np.ones(8, np.float32), np.arange(8, dtype=np.int32) % 3
        steps = Steps(observation, step_type, flat, flat, action, (), step_type, ())
        return Replayed(ENV.spec, num_envs, lambda: steps)


def test_reanalyzers_write_the_same_rows_whoever_acts():
    """The policy remembers the recorded actions, not those that it would have taken, and explores in no slot's way."""
    agent = muzero.make(
        muzero.Config(
            Torso("mlp", widths=(8,)),
            frame_stack=2,
            head_width=8,
            num_simulations=16,
            action_history=True,
            self_play=SelfPlay(spread=0.9),
        ),
        ENV.spec,
    )
    table = Table("again", "queue", sequence_length=8, period=8, batch_size=2, size=4, writer="reanalyzer")
    agent = agent._replace(tables=(table,))
    variables = VariableServer("variables")
    rng = np.random.default_rng(0)  # A fresh agent's heads are zero, whatever they see.
    params = jax.tree.map(lambda leaf: leaf + rng.normal(0, 0.3, leaf.shape).astype(leaf.dtype), acting_params(agent))
    variables.put(5, pack(params))
    node = Inference("inference", agent, ENV, variables)
    node.start()
    rows = []
    for handle, given in ((variables, agent), (Remote(node), acting.tables_only(agent))):
        queue = QueueTable(table)
        again = Recorded("reanalyzer/0", given, ENV, handle, queue, num_envs=2, seed=1)
        again.start()
        for _ in range(2 * 8):
            again.step()
        rows.append([queue.get(1.0)[0].shards[0] for _ in range(2)])
    for local, remote in zip(*rows):
        for leaf, other in zip(jax.tree.leaves(local), jax.tree.leaves(remote), strict=True):
            np.testing.assert_allclose(leaf, other, rtol=1e-4, atol=1e-5)


def test_an_actor_and_its_handle_load_without_jax():
    code = "import boonta.nodes.actor, sys; print([x for x in ('jax', 'haiku', 'tensorflow') if x in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    assert done.stdout.strip() == "[]"
