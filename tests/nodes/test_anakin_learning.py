"""The fused node learns: IMPALA solves Catch; MuZero searches, keeps a replay, and its loss falls; NaN ends it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents import impala, muzero
from boonta.agents.config import replaced
from boonta.envs.jax.catch import Catch
from boonta.nodes.anakin import Anakin
from boonta.nodes.watch.evaluation import NONE, Evaluation
from boonta.nodes.watch.stopping import StopRule
from boonta.tests.helpers import tiny

pytestmark = pytest.mark.once

ENV = Catch()


def test_impala_solves_catch(tmp_path):
    agent = impala.make(impala.CATCH, ENV.spec)
    rule, evaluation = StopRule(updates=1_250), Evaluation(50, every_updates=1_250)
    node = Anakin("anakin", agent, ENV, folder=str(tmp_path), devices=1, stop=rule, evaluation=evaluation)
    node.start()
    while node._updates < 1_250:
        node.step()
    node.close()
    metrics = node.report()["metrics"]
    assert metrics["eval_return"] >= 0.99 and metrics["return"] >= 0.95, metrics


@pytest.mark.slow  # In every run tests/agents/test_readme.py learns so, but for a model and loss of its own.
def test_muzero_learns_from_its_replay(tmp_path):
    config = replaced(
        muzero.CATCH,
        {
            "torso.widths": (16,),
            "head_width": 16,
            "num_simulations": 2,
            "replay.sampler": "proportional",
            "replay.min_size": 64,
        },
    )
    agent = muzero.make(config, ENV.spec)
    rule = StopRule(updates=80)
    node = Anakin("anakin", agent, ENV, folder=str(tmp_path), devices=1, evaluation=NONE, stop=rule)
    node.start()
    before = jax.device_get(node._state.learner.params)
    losses = []
    while node._updates < 80:
        node.step()
        losses.append(node.report()["metrics"].get("loss", np.inf))
    node.close()
    assert node.report()["counts"]["updates"] == 80
    assert node.report()["metrics"]["loss"] < 0.8 * min(losses[1:2]), losses
    assert any(np.any(a != b) for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(node._state.learner.params)))


class Unsound(Catch):
    """Its reward is NaN where the ball lands."""

    def move(self, key, state, action):
        state, reward, landed, cut = super().move(key, state, action)
        return state, jnp.where(landed, jnp.nan, reward), landed, cut


def test_what_an_environment_shows_as_nan_is_named(tmp_path):
    env = Unsound(rows=4, columns=3)
    anakin = Anakin("anakin", tiny.make(env.spec), env, folder=str(tmp_path), num_envs=16, evaluation=NONE, devices=1)
    anakin.start()
    with pytest.raises(
        FloatingPointError, match=r"the environment's reward \(\d+ times\) is NaN, after \d+ updates, .* at step 3$"
    ):
        for _ in range(3):
            anakin.step()
