"""Behaviour cloning: the policy loss alone, on the actions that were recorded."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents import muzero
from boonta.agents.base import Batch, Slots, Steps
from boonta.agents.groups import Torso
from boonta.agents.muzero.loss import policy_targets
from boonta.agents.muzero.policy import Extras
from boonta.envs.base import FIRST, LAST, MID
from boonta.envs.catch import Catch

pytestmark = pytest.mark.once

CLONE = dataclasses.replace(
    muzero.CATCH,
    policy_target="action",
    eval_simulations=1,
    value_cost=0.0,
    reward_cost=0.0,
    consistency_cost=0.0,
    torso=Torso("mlp", widths=(32,), normalise=True),
    head_width=32,
    roots=4,
    unroll_length=1,
    bootstrap_length=1,
)


def awkward(observation: np.ndarray) -> np.ndarray:
    """A move away from the ball, or to the left if there is no such direction; no search would choose it."""
    ball = observation[:, :-1].max(axis=1).argmax(axis=1)
    return np.where(ball < observation[:, -1].argmax(axis=1), 2, 0).astype(np.int32)


def record(rows: int, slots: int) -> Steps:
    """Steps of that player, leaves [rows, slots, ...], with search statistics that carry no information."""
    rng = np.random.default_rng(0)
    env, recorded = Catch()(slots, 0), []
    timestep = env.reset()
    for _ in range(rows):
        action = awkward(timestep.observation)
        extras = Extras(rng.dirichlet(np.ones(3), slots).astype(np.float32), np.zeros(slots, np.float32))
        shown = (timestep.observation, timestep.step_type, timestep.reward, timestep.discount)
        recorded.append(Steps(*shown, action, extras, np.zeros(slots, np.int32)))
        timestep = env.step(action)
    return jax.tree.map(lambda *leaves: np.stack(leaves), *recorded)


def test_the_recorded_actions_are_learned_and_played():
    spec = Catch().spec
    agent = muzero.make_unplugged(CLONE, spec)
    steps = record(30, 32)
    update = jax.jit(agent.update.step)
    state = jax.jit(agent.update.init)(jax.random.PRNGKey(0))
    rng, losses = np.random.default_rng(1), []
    for _ in range(200):
        start = rng.integers(30 - CLONE.sequence_length)
        batch = jax.tree.map(lambda leaf, t=start: leaf[t : t + CLONE.sequence_length], steps)
        state, _, metrics = update(state, Batch(batch, np.ones(32, np.float32)))
        losses.append(float(metrics["policy_loss"]))
    assert np.mean(losses[-10:]) < 0.3 * losses[0]
    act, params = jax.jit(agent.eval_policy.step), agent.update.params(state)
    env = Catch()(64, 7)
    timestep, same = env.reset(), []
    for t in range(20):
        action, _, _ = act(params, jax.random.PRNGKey(t), timestep, agent.eval_policy.initial_state(Slots(64)))
        decides = timestep.step_type != LAST
        same.append((np.asarray(action) == awkward(timestep.observation))[decides])
        timestep = env.step(np.asarray(action))
    assert np.mean(np.concatenate(same)) > 0.95


def test_targets_are_the_actions_but_for_those_that_the_environment_ignored():
    step_type = np.array([[FIRST], [MID], [LAST], [FIRST]], np.int32)
    action = np.array([[2], [0], [1], [1]], np.int32)
    policy = jnp.full((4, 1, 3), 1 / 3)
    ones = np.ones((4, 1), np.float32)
    steps = Steps(ones, step_type, ones, ones, action, Extras(policy, ones), action)
    np.testing.assert_array_equal(policy_targets(steps, CLONE)[:, 0], [[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(policy_targets(steps, muzero.CATCH), policy)


def test_unplugged_learns_from_what_reanalyzers_write_alone():
    agent = muzero.make_unplugged(muzero.CATCH, Catch().spec)
    (table,) = agent.tables
    assert (table.name, table.writer, table.share) == ("reanalyzed", "reanalyzer", 1.0)
    with pytest.raises(ValueError, match="reanalyze_ratio is 0.8; unplugged, all sequences are reanalyzed: leave it 0"):
        muzero.make_unplugged(dataclasses.replace(muzero.CATCH, reanalyze_ratio=0.8), Catch().spec)
    with pytest.raises(ValueError, match="policy_target is 'none'; it must be one of"):
        dataclasses.replace(muzero.CATCH, policy_target="none")
