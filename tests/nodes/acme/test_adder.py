"""Acme actors' experience becomes the rows that our own actors would have written."""

from __future__ import annotations

import dataclasses

import dm_env
import numpy as np
import pytest
import tree

from boonta.agents import impala, muzero
from boonta.agents.base import Steps
from boonta.agents.groups import Torso
from boonta.envs.base import FIRST, LAST, MID
from boonta.envs.catch import Catch
from boonta.envs.one_slot import OneSlot
from boonta.nodes.acting.local import step_shapes
from boonta.nodes.base import Node
from boonta.tests.helpers import tiny

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
from boonta.nodes.acme.adder import StepsAdder  # noqa: E402
from boonta.tests.helpers.scripted import Scripted  # noqa: E402

import acme  # noqa: E402  # isort: skip

REANALYZED = dataclasses.replace(muzero.CATCH, reanalyze_ratio=1.0, torso=Torso("mlp", widths=(8,)))
FLAT = dataclasses.replace(impala.CATCH, torso=Torso("mlp", widths=(8,)), lstm_size=0)
IMPALA = impala.make(FLAT, Catch().spec)


class Recording:
    """A store that keeps the rows it is given."""

    def __init__(self):
        self.rows = []

    def open_writer(self, tables, num_envs, wait_for, group):
        assert num_envs == 1
        self.tables = [table.name for table in tables]
        return self

    def append(self, steps: Steps) -> int:
        self.rows.append(steps)
        return 1

    def close(self):
        self.rows.append("closed")

    @property
    def steps(self) -> Steps:
        """All rows, leaves [T, ...]."""
        return tree.map_structure(lambda *leaves: np.concatenate(leaves), *self.rows)


def test_an_acme_loop_writes_what_happens_and_zeros_for_what_it_lacks():
    agent, store, node = muzero.make(REANALYZED, Catch().spec), Recording(), Node("acme")
    adder = StepsAdder(agent, Catch().spec, store, node, version=lambda: 7)
    acme.EnvironmentLoop(OneSlot(Catch(), 5), Scripted(adder, 0.3), logger=acme.utils.loggers.NoOpLogger()).run(3)
    steps, env, rng = store.steps, Catch()(1, 5), np.random.default_rng(0)
    assert store.tables == ["past"]
    timestep, played = env.reset(), Scripted(None, 0.3)
    played._rng = rng
    for t in range(30):
        shown = steps.observation[t], steps.step_type[t], steps.reward[t], steps.discount[t]
        np.testing.assert_array_equal(shown[0], timestep.observation[0])
        assert shown[1:] == (timestep.step_type[0], timestep.reward[0], timestep.discount[0])
        last = timestep.step_type[0] == LAST
        action = np.int32(0) if last else played.select_action(timestep.observation[0])
        assert steps.action[t] == action and steps.action.dtype == np.int32
        timestep = env.step(np.array([action]))
    assert len(steps.reward) == 30 and set(steps.version) == {7}
    assert steps.extras.policy.shape == (30, 3) and not steps.extras.policy.any() and not steps.extras.value.any()
    assert node.report()["counts"] == {"sequences": 30.0}
    adder.close()
    assert store.rows[-1] == "closed"


def restart(x):
    return acme_step(FIRST, None, None, x)


def acme_step(step_type, reward, discount, x):
    return dm_env.TimeStep(dm_env.StepType(step_type), reward, discount, np.full((10, 5), x, np.float64))


def test_an_episode_that_is_given_up_is_truncated():
    store = Recording()
    adder = StepsAdder(tiny.make(Catch().spec), Catch().spec, store)
    adder.add_first(restart(0))
    adder.add_first(restart(1))  # Nothing was done in the first.
    adder.add(np.int64(2), acme_step(MID, 0.5, 0.9, 2))
    adder.reset()
    adder.reset()
    adder.add_first(acme_step(MID, 0.0, 1.0, 3))  # Recording may begin anywhere.
    adder.add(np.int64(1), acme_step(LAST, -1.0, 0.0, 4))
    steps = store.steps
    assert steps.step_type.tolist() == [FIRST, LAST, FIRST, LAST]
    assert steps.observation[:, 0, 0].tolist() == [1, 2, 3, 4] and steps.observation.dtype == np.float32
    assert steps.action.tolist() == [2, 0, 1, 0]
    np.testing.assert_allclose(steps.reward, [0.0, 0.5, 0.0, -1.0])
    np.testing.assert_allclose(steps.discount, [1.0, 0.9, 1.0, 0.0])
    with pytest.raises(ValueError, match="add_first must come before add"):
        adder.add(np.int64(1), acme_step(MID, 0.0, 1.0, 5))


def test_an_agent_that_learns_from_extras_needs_them():
    with pytest.raises(ValueError, match=r"\['trajectories'\], whose steps have extras .*reanalyze_ratio 1"):
        StepsAdder(IMPALA, Catch().spec, Recording())
    store = Recording()
    adder = StepsAdder(IMPALA, Catch().spec, store, gives_extras=True)
    adder.add_first(restart(0))
    adder.add(1, acme_step(MID, 0.0, 1.0, 1), {"logits": np.array([0.0, 1.0, 2.0])})
    (extras,) = tree.flatten(store.steps.extras)
    assert extras.tolist() == [[0.0, 1.0, 2.0]] and extras.dtype == np.float32
    with pytest.raises(ValueError, match=r"extras has .*logits.* shape \(2,\), not \(3,\)"):
        adder.add(1, acme_step(MID, 0.0, 1.0, 2), {"logits": np.zeros(2)})


@pytest.mark.parametrize(
    ("action", "observation", "message"),
    [
        (1, np.zeros((5, 10)), r"observation has shape \(5, 10\), not \(10, 5\)"),
        (0.5, np.zeros((10, 5)), "action has .*Cannot cast"),
        (1, {"board": np.zeros((10, 5))}, r"observation has \['board'\]; the agent's steps have \[''\]"),
    ],
)
def test_what_does_not_fit_is_named(action, observation, message):
    adder = StepsAdder(tiny.make(Catch().spec), Catch().spec, Recording())
    adder.add_first(restart(0)._replace(observation=observation))
    with pytest.raises(ValueError, match=message):
        adder.add(action, acme_step(MID, 0.0, 1.0, 1))


def test_a_recurrent_agent_begins_each_sequence_anew():
    store = Recording()
    agent = impala.make(dataclasses.replace(FLAT, lstm_size=4), Catch().spec)
    adder = StepsAdder(agent, Catch().spec, store, gives_extras=True)
    adder.add_first(restart(0))
    adder.add(1, acme_step(LAST, 0.0, 0.0, 1), {"logits": np.zeros(3)})
    signature = step_shapes(agent, Catch().spec)
    tree.map_structure(
        lambda leaf, own: np.testing.assert_array_equal(own, np.zeros((2, *leaf.shape))),
        signature.core,
        store.steps.core,
    )
    assert [leaf.dtype for leaf in tree.flatten(store.steps)] == [leaf.dtype for leaf in tree.flatten(signature)]
