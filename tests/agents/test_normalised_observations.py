"""IMPALA, SAC and TD3 that normalise observations act and learn as they would from what is normalised by hand."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from dm_env import specs

from boonta.agents import impala, sac, td3
from boonta.agents.base import Batch, Slots, Steps
from boonta.agents.config import replaced
from boonta.envs.base import MID, EnvSpec, TimeStep

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

SPEC = EnvSpec(specs.Array((3,), np.float32), specs.BoundedArray((2,), np.float32, -1.0, 1.0))
B = 6
SMALL = {"layers.widths": (8,), "replay.batch_size": B, "replay.size": B, "replay.min_size": 1}
AGENTS = {
    "impala": (
        impala.make,
        replaced(
            impala.Config(),
            {"torso.kind": "mlp", "torso.widths": (8,), "frame_stack": 1, "unroll_length": 4, "batch_size": B},
        ),
        "normalise_observations",
    ),
    "sac": (sac.make, replaced(sac.Config(), SMALL), "layers.normalise_observations"),
    "td3": (td3.make, replaced(td3.Config(), SMALL), "layers.normalise_observations"),
}


def both(name: str):
    """The agent without and with normalised observations."""
    make, config, field = AGENTS[name]
    return make(config, SPEC), make(replaced(config, {field: True}), SPEC)


def batch_of(agent, observation: np.ndarray) -> Batch:
    """Steps in the middle of episodes, with what the agent stores beside them."""
    rng, shape = np.random.default_rng(1), observation.shape[:2]
    action = rng.uniform(-0.9, 0.9, (*shape, 2)).astype(np.float32)
    state = agent.policy.initial_state(Slots(shape[1]))
    timestep = TimeStep(np.full(shape[1], MID, np.int32), *np.ones((2, shape[1]), np.float32), observation[0])
    _, extras, _ = agent.policy.step(params_of(agent), jax.random.PRNGKey(0), timestep, state)
    extras = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (shape[0], *leaf.shape)), extras)
    reward = rng.normal(size=shape).astype(np.float32)
    ones = np.ones(shape, np.float32)
    core = jax.tree.map(lambda leaf: leaf[None], agent.policy.core(state))
    steps = Steps(observation, np.full(shape, MID, np.int32), reward, ones, action, extras, 0 * ones, core)
    return Batch(steps, np.ones(B, np.float32))


def params_of(agent, state=None):
    return agent.update.params(agent.update.init(jax.random.PRNGKey(2)) if state is None else state)


def act(agent, state, observation: np.ndarray) -> np.ndarray:
    timestep = TimeStep(np.full(B, MID, np.int32), *np.ones((2, B), np.float32), observation)
    frames = agent.eval_policy.initial_state(Slots(B))
    return np.asarray(agent.eval_policy.step(params_of(agent, state), jax.random.PRNGKey(5), timestep, frames)[0])


@pytest.mark.parametrize("name", AGENTS)
def test_they_act_and_learn_as_from_what_is_normalised_by_hand(name):
    plain, normal = both(name)
    length = plain.tables[0].sequence_length
    rng = np.random.default_rng(3)
    first, second = (rng.normal([5.0, -300.0, 0.1], [2.0, 40.0, 0.01], (length, B, 3)).astype(np.float32) for _ in "ab")
    mean, deviation = first.mean((0, 1)), first.std((0, 1))
    by_hand = (second - mean) / np.sqrt(deviation**2 + 1e-8)

    step = jax.jit(normal.update.step)
    untouched = normal.update.init(jax.random.PRNGKey(2))
    state, _, _ = step(untouched, batch_of(normal, first))
    measured = jax.tree.leaves(state.statistics)
    assert any(np.allclose(leaf, mean, rtol=1e-4) for leaf in measured)
    assert any(np.allclose(leaf, deviation**2, rtol=1e-3) for leaf in measured)

    # An agent that doesn't normalise, with the same params, sees the second batch normalised by the first.
    bare = plain.update.init(jax.random.PRNGKey(2))
    same = bare._replace(
        **{field: getattr(state, field) for field in ("params", "target_params", "opt_state", "key", "updates")}
    )
    np.testing.assert_allclose(act(normal, state, second[0]), act(plain, same, by_hand[0]), rtol=1e-4, atol=1e-5)
    batch = batch_of(normal, second)
    after, _, metrics = step(state, batch)
    hand = batch._replace(steps=batch.steps._replace(observation=by_hand))
    expected, _, wanted = jax.jit(plain.update.step)(same, hand)
    np.testing.assert_allclose(metrics["loss"], wanted["loss"], rtol=1e-4)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), after.params, expected.params)


@pytest.mark.parametrize("name", AGENTS)
def test_no_batch_leaves_observations_as_they_are(name):
    plain, normal = both(name)
    observation = np.random.default_rng(0).normal(size=(B, 3)).astype(np.float32)
    acted = [act(agent, agent.update.init(jax.random.PRNGKey(2)), observation) for agent in (plain, normal)]
    np.testing.assert_allclose(*acted, rtol=1e-5, atol=1e-6)
