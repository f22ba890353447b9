"""MuZero learns, in one process and with a replay of a few lines."""

import dataclasses

import jax
import numpy as np
import pytest

from boonta.agents import muzero
from boonta.agents.base import Batch, Steps
from boonta.envs.open_spiel import OpenSpiel
from boonta.envs.players import RandomPlayer
from boonta.nodes.acting.local import jit_policy
from boonta.nodes.matches import match
from boonta.nodes.metrics import Stopwatch

SLOTS = 32


def learn(env, config, updates, seed=0):
    """Acts and updates in turn at the table's ratio; the agent and what it has learned."""
    agent = muzero.make(config, env.spec)
    (table,) = agent.tables
    act, update = jax.jit(agent.policy.step), jax.jit(agent.update.step, donate_argnums=0)
    learner = jax.jit(agent.update.init)(jax.random.PRNGKey(seed))
    batch, state = env(SLOTS, seed), agent.policy.initial_state(SLOTS)
    timestep, rows, blocks = batch.reset(), [], []
    rng, done, t = np.random.default_rng(seed), 0, 0
    while done < updates:
        t += 1
        params = agent.update.params(learner)
        action, extras, state = act(params, jax.random.fold_in(jax.random.PRNGKey(seed), t), timestep, state)
        action, extras = jax.device_get((action, extras))
        shown = (timestep.observation, timestep.step_type, timestep.reward, timestep.discount)
        rows.append(Steps(*shown, action, extras, np.zeros(SLOTS, np.int32)))
        timestep = batch.step(action)
        if len(rows) < table.sequence_length:
            continue
        blocks.append(jax.tree.map(lambda *x: np.stack(x), *rows))
        del rows[: table.period]
        owed = (len(blocks) * SLOTS - table.min_size) * table.samples_per_insert / table.batch_size
        while done < min(owed, updates):
            drawn = zip(rng.integers(len(blocks), size=table.batch_size), rng.integers(SLOTS, size=table.batch_size))
            sequences = [jax.tree.map(lambda x, s=slot: x[:, s], blocks[i]) for i, slot in drawn]
            steps = jax.tree.map(lambda *x: np.stack(x, axis=1), *sequences)
            learner, _, _ = update(learner, Batch(steps, np.ones(table.batch_size, np.float32)))
            done += 1
    assert act._cache_size() == 1 and update._cache_size() == 1  # Nothing was compiled twice.
    return agent, agent.update.params(learner)


@pytest.mark.once
def test_learns_to_beat_a_random_player():
    game = OpenSpiel("tic_tac_toe")
    config = dataclasses.replace(muzero.BOARD, num_simulations=16, value_target="search", bootstrap_length=3)
    agent, params = learn(game, config, updates=400)
    me = match.policy_side(agent.eval_policy, jit_policy(agent.eval_policy), params, Stopwatch())
    random = match.player_side(RandomPlayer(), lambda: False, Stopwatch())
    outcome = match.play_match(game, 100, (me, random), seed=1, stopping=lambda: False)
    assert np.mean(outcome) >= 0.25  # Two random players would have 0, and these params before they learn 0.06.
