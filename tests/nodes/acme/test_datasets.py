"""Acme's own dataset reader samples what our writer wrote, as Acme's adder would have written it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tree

from boonta.agents.base import Steps
from boonta.envs.base import FIRST, BoardView
from boonta.envs.catch import Catch
from boonta.envs.one_slot import OneSlot
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.tables.reverb.signature import pack
from boonta.tests.helpers import tiny

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
from boonta.nodes.acme.adder import StepsAdder  # noqa: E402
from boonta.nodes.acme.datasets import as_trajectories, unpack  # noqa: E402
from boonta.nodes.tables.reverb.server import Server, make_table  # noqa: E402
from boonta.nodes.tables.reverb.store import ReverbStore  # noqa: E402
from boonta.tests.helpers.scripted import Scripted  # noqa: E402

import acme  # noqa: E402  # isort: skip
import reverb  # noqa: E402  # isort: skip
import tensorflow as tf  # noqa: E402  # isort: skip
from acme.adders import reverb as adders  # noqa: E402  # isort: skip
from acme.datasets import make_reverb_dataset  # noqa: E402  # isort: skip

STEPS, BATCH, BATCHES = 4, 7, 7


class Both(acme.adders.Adder):
    """Adds to two adders."""

    def __init__(self, *adders):
        self._adders = adders

    def add_first(self, timestep):
        for adder in self._adders:
            adder.add_first(timestep)

    def add(self, action, next_timestep, extras=()):
        for adder in self._adders:
            adder.add(action, next_timestep, extras)

    def reset(self):
        """Nothing is held back."""


def read(client, name, postprocess=None):
    """Sequences of steps, each as bytes, in any order."""
    dataset = make_reverb_dataset(
        client.server_address, BATCH, table=name, num_parallel_calls=1, postprocess=postprocess
    )
    batches = [sample.data for sample in itertools.islice(dataset.as_numpy_iterator(), BATCHES)]
    assert all(batch.reward.shape == (BATCH, STEPS) for batch in batches)
    return sorted(
        tuple((leaf[i].dtype.name, leaf[i].tobytes()) for leaf in tree.flatten(batch))
        for batch in batches
        for i in range(BATCH)
    )


def test_acme_reads_the_same_from_our_table_as_from_its_own():
    """Twenty episodes of ten rows, two of which are ends, in sequences of four steps that cross the ends."""
    env = OneSlot(Catch(), 3)
    spec = env.batch.spec
    agent = tiny.make(spec, batch_size=16, length=STEPS + 1)
    signature = adders.SequenceAdder.signature(acme.make_environment_spec(env), sequence_length=STEPS)
    theirs = reverb.Table.queue("theirs", 64, signature=signature)
    server = Server([make_table(agent.tables[0], step_shapes(agent, spec)), theirs.internal_table])
    client = reverb.Client(f"localhost:{server.port}")
    try:
        own = StepsAdder(agent, spec, ReverbStore([server.client()]))
        going_on = adders.EndBehavior.CONTINUE
        other = adders.SequenceAdder(
            client, STEPS, period=STEPS, priority_fns={"theirs": None}, end_of_episode_behavior=going_on
        )
        loop = acme.EnvironmentLoop(env, Scripted(Both(own, other)), logger=acme.utils.loggers.NoOpLogger())
        loop.run(num_episodes=20)
        own.close()
        ours = read(client, "trajectories", as_trajectories(agent, spec))
        assert ours == read(client, "theirs")
    finally:
        server.stop()


def test_every_type_is_unpacked():
    rows = Steps(
        {"board": np.arange(24, dtype=np.uint8).reshape(4, 3, 2), "wide": np.linspace(0, 1, 4)},
        np.full(4, FIRST, np.int32),
        np.arange(4, dtype=np.float32),
        np.ones(4, np.float32),
        np.zeros((4, 2), np.float32),
        BoardView(np.zeros((4, 1), np.int8), np.array([[True, False]] * 4), np.arange(4, dtype=np.int64)),
        np.arange(4, dtype=np.int32),
    )
    like = tree.map_structure(lambda leaf: np.empty(leaf.shape[1:], leaf.dtype), rows)
    found = unpack(like, tf.constant(pack(rows)))
    assert isinstance(found.extras, BoardView)
    for own, leaf in zip(tree.flatten(found), tree.flatten(rows), strict=True):
        assert own.numpy().dtype == leaf.dtype
        np.testing.assert_array_equal(own.numpy(), leaf)
    with pytest.raises(ValueError, match="bytes, but"):
        unpack(like, tf.constant(pack(rows)[:, 1:]))
