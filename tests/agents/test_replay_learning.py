"""DQN with its parts, and R2D2, learn Catch: one evaluation of 50 games, of which random play wins a fifth."""

from __future__ import annotations

import pytest

from boonta.agents import dqn, r2d2
from boonta.agents.config import replaced
from boonta.envs.jax.catch import Catch
from boonta.nodes.anakin import Anakin
from boonta.nodes.watch.evaluation import Evaluation
from boonta.nodes.watch.stopping import StopRule

pytestmark = pytest.mark.once
ENV = Catch()
AGENTS = {
    "dqn": (dqn, dqn.CATCH, 3_000),
    "rainbow": (dqn, replaced(dqn.Rainbow.preset("catch"), {"head_width": 32}), 3_000),
    "quantile, apex": (dqn, replaced(dqn.ApeX.preset("catch"), {"distribution": "quantile", "quantiles": 8}), 3_000),
    "r2d2": (r2d2, r2d2.CATCH, 2_000),
}
SLOW = ("dqn", "rainbow")  # The others have most of their parts.


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in AGENTS]
)
def test_it_learns_catch(name, tmp_path):
    agent, config, updates = AGENTS[name]
    made = agent.make(config, ENV.spec)
    rule, evaluation = StopRule(updates=updates), Evaluation(50, every_updates=updates)
    node = Anakin("anakin", made, ENV, folder=str(tmp_path), devices=1, stop=rule, evaluation=evaluation)
    node.start()
    while node._updates < updates:
        node.step()
    node.close()
    assert node.report()["metrics"]["eval_return"] >= 0.6
