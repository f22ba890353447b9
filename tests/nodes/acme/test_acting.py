"""A policy of ours acts in Acme's own loop, with its counters, loggers and observers."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from boonta.agents import impala
from boonta.agents.groups import Torso
from boonta.envs.catch import Catch
from boonta.envs.one_slot import OneSlot
from boonta.nodes.acting.local import Play, jit_policy
from boonta.nodes.variables import VariableServer, pack
from boonta.nodes.watch.stopwatch import Stopwatch
from boonta.tests.helpers import tiny
from boonta.tests.helpers.params import drawn

pytestmark = pytest.mark.cluster
pytest.importorskip("launchpad")
from boonta.nodes.acme.acting import PARAMS, Fixed, PolicyActor, Published  # noqa: E402

import acme  # noqa: E402  # isort: skip
from acme.utils import counting, loggers, observers  # noqa: E402  # isort: skip

CONFIG = dataclasses.replace(impala.CATCH, torso=Torso("mlp", widths=(8,)), lstm_size=4, frame_stack=2)


def params_of(agent, seed=0):
    return agent.update.params(drawn(agent.update.init, seed))


class LastReward(observers.EnvLoopObserver):
    def observe_first(self, env, timestep):
        self.seen = 0

    def observe(self, env, timestep, action):
        self.seen, self.reward = self.seen + 1, timestep.reward

    def get_metrics(self):
        return {"seen": self.seen, "last_reward": self.reward}


class Noting(acme.adders.Adder):
    def __init__(self):
        self.added = []

    def add_first(self, timestep):
        self.added.append("first")

    def add(self, action, next_timestep, extras=()):
        self.added.append((int(action), extras))

    def reset(self):
        """Nothing is held back."""


def test_a_recurrent_policy_with_stacked_frames_plays_as_it_does_with_us():
    agent, adder = impala.make(CONFIG, Catch().spec), Noting()
    params = params_of(agent)
    logger, counter = loggers.InMemoryLogger(), counting.Counter()
    actor = PolicyActor(agent.policy, Fixed(params), adder, seed=4)
    loop = acme.EnvironmentLoop(OneSlot(Catch(), 2), actor, counter, logger, observers=[LastReward()])
    loop.run(num_episodes=4)
    play = Play(Catch()(1, 2), jit_policy(agent.policy), 4, Stopwatch())
    rows = list(logger.data)
    assert [row["episodes"] for row in rows] == [1, 2, 3, 4] and counter.get_counts()["steps"] == 36
    assert [row["seen"] for row in rows] == [9] * 4
    assert all(row["last_reward"] == row["episode_return"] for row in rows)
    expected = [play.step(params) for _ in range(9)]
    assert [action for action, _ in adder.added[1:10]] == [int(action[0]) for _, action, _ in expected]
    for (_, extras), (_, _, ours) in zip(adder.added[1:10], expected):
        jax.tree.map(lambda own, leaf: np.testing.assert_array_equal(own, leaf[0]), extras, ours)


def test_params_come_from_the_variable_server_at_each_update():
    agent = tiny.make(Catch().spec)
    server = VariableServer("variables")
    source = Published(server, agent)
    server.put(3, pack(params_of(agent)))
    (params,) = source.get_variables([PARAMS])
    assert source.version == 3 and isinstance(params["linear"]["w"], np.ndarray)
    actor = PolicyActor(agent.eval_policy, source)
    better = {"linear": {"w": np.tile(np.float32([0, 0, 99]), (50, 1))}}
    env = OneSlot(Catch())
    actor.observe_first(env.reset())
    actor.update()
    server.put(4, pack(better))
    actor.update()
    assert source.version == 4
    assert {int(actor.select_action(env.reset().observation)) for _ in range(20)} == {2}
    with pytest.raises(KeyError, match="no variables 'critic'; the params that the policy acts with are 'policy'"):
        source.get_variables(["critic"])
    with pytest.raises(KeyError, match="no variables 'critic'"):
        Fixed(params).get_variables(["critic"])
