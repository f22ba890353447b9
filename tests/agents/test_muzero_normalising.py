"""MuZero that normalises what it sees: in acting, learning and targets alike, and to what end."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dm_env import specs

from boonta.agents import muzero
from boonta.agents.base import Batch, Slots, Steps
from boonta.agents.config import replaced
from boonta.agents.groups import Torso
from boonta.agents.muzero.history import Seen
from boonta.agents.muzero.loss import muzero_loss
from boonta.agents.muzero.networks import make_model
from boonta.agents.muzero.normalising import normalising
from boonta.agents.muzero.policy import Extras
from boonta.agents.normalisation import Moments
from boonta.agents.optimisation import Context
from boonta.envs.base import FIRST, LAST, MID, BoardView, EnvSpec, TimeStep

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

SMALL = muzero.Config(
    Torso(widths=(8,)),
    head_width=8,
    num_simulations=2,
    roots=2,
    unroll_length=2,
    bootstrap_length=1,
    normalise_observations=True,
)
A, B = 3, 4
SPEC = EnvSpec(specs.Array((5,), np.uint8), specs.DiscreteArray(A))
MEAN, DEVIATION = np.arange(5, dtype=np.float32) * 10, np.arange(1, 6, dtype=np.float32)
MOMENTS = Moments(np.float32(9), [MEAN], [DEVIATION**2])


def by_hand(frames, axis=-1):
    """Bytes [..., 5, L], or with the 5 at another axis, normalised by MOMENTS; a frame of zeros is the mean."""
    shape = [1] * frames.ndim
    shape[axis] = 5
    shown = (frames > 0).any(axis, keepdims=True)
    return shown * np.clip((frames.astype(np.float32) - MEAN.reshape(shape)) / DEVIATION.reshape(shape), -10, 10)


def pixels(*shape, seed=0):
    return np.random.default_rng(seed).integers(60, size=(*shape, 5)).astype(np.uint8)


def batch_of(config, observation):
    """An episode begins in the middle of the second slot."""
    rng, shape = np.random.default_rng(1), observation.shape[:2]
    policy = rng.dirichlet(np.ones(A), shape).astype(np.float32)
    extras = Extras(policy, rng.normal(size=shape).astype(np.float32))
    reward = rng.normal(size=shape).astype(np.float32)
    action = rng.integers(A, size=shape).astype(np.int32)
    kinds = np.full(shape, MID, np.int32)
    kinds[2:4, 1] = LAST, FIRST
    steps = Steps(observation, kinds, reward, np.ones(shape, np.float32), action, extras, np.zeros(shape, np.int32))
    return Batch(steps, np.full(shape[1], 0.1, np.float32))


@pytest.mark.parametrize("history", [False, True])
def test_frames_are_normalised_and_actions_are_not(history):
    config = replaced(SMALL, {"frame_stack": 2, "action_history": history})
    plain = make_model(config, specs.Array((5,), np.float32), A)
    params = plain.init(jax.random.PRNGKey(0))
    stack = np.moveaxis(pixels(2, B), 0, -1)  # [B, 5, L]
    stack[1, :, 0] = 0  # No frame: an episode has just begun.
    past = np.array([[0, 1], [2, 3], [1, 1], [0, 2]], np.int32)
    seen, shown = ((Seen(x, past) if history else x) for x in (stack, by_hand(stack, axis=-2)))
    hidden = normalising(plain).represent((params, MOMENTS), seen)
    np.testing.assert_allclose(hidden, plain.represent(params, shown), atol=1e-5)
    assert np.abs(hidden - plain.represent(params, Seen(stack, past) if history else stack)).max() > 0.01


def test_encodings_of_chance_see_the_same_and_all_else_is_the_plain_models():
    config = replaced(SMALL, {"search": "stochastic", "chance_codes": 2})
    plain = make_model(config, specs.Array((5,), np.float32), A)
    params, model = plain.init(jax.random.PRNGKey(0)), normalising(plain)
    stack, code = pixels(B)[..., None], np.eye(2, dtype=np.float32)[[0, 1, 1, 0]]
    both, hidden = (params, MOMENTS), np.linspace(0, 1, B * 8, dtype=np.float32).reshape(B, 8)
    choice = np.eye(A + 1, dtype=np.float32)
    pairs = (
        (model.chance.encode(both, stack), plain.chance.encode(params, by_hand(stack, axis=-2))),
        (model.chance.predict(both, hidden), plain.chance.predict(params, hidden)),
        (model.chance.afterstate(both, hidden, choice), plain.chance.afterstate(params, hidden, choice)),
        (model.dynamics(both, hidden, code), plain.dynamics(params, hidden, code)),
        (model.predict(both, hidden), plain.predict(params, hidden)),
        (model.project(both, hidden), plain.project(params, hidden)),
        (model.foresee(both, hidden), plain.foresee(params, hidden)),
    )
    for one, other in pairs:
        jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), one, other)


def test_an_update_is_that_of_frames_normalised_by_the_moments_before_it():
    """Params, target params and the search within the update all take the moments."""
    config = replaced(SMALL, {"frame_stack": 2, "reanalyze_ratio": 0.5, "reanalyze": "update"})
    frames = pixels(config.sequence_length, B)
    agent, plain = (
        muzero.make(config, SPEC),
        muzero.make(
            replaced(config, {"normalise_observations": False}),
            SPEC._replace(observations=specs.Array((5,), np.float32)),
        ),
    )
    state = jax.jit(agent.update.init)(jax.random.PRNGKey(3))
    state = state._replace(statistics=MOMENTS, target_params=jax.tree.map(lambda x: x + 0.1, state.params))
    after, priorities, metrics = jax.jit(agent.update.step)(state, batch_of(config, frames))
    wanted = jax.jit(plain.update.step)(state._replace(statistics=()), batch_of(config, by_hand(frames)))
    np.testing.assert_allclose(priorities, wanted[1], rtol=1e-4)
    assert float(metrics["loss"]) == pytest.approx(float(wanted[2]["loss"]), rel=1e-5)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-4), after.params, wanted[0].params)


def test_moments_are_those_of_all_rows_so_far_and_published():
    agent = muzero.make(SMALL, SPEC)
    state = jax.jit(agent.update.init)(jax.random.PRNGKey(0))
    first, second = (pixels(SMALL.sequence_length, B, seed=seed) for seed in (1, 2))
    for frames in (first, second):
        state = jax.jit(agent.update.step)(state, batch_of(SMALL, frames))[0]
    moments = state.statistics
    rows = np.concatenate([first, second]).reshape(-1, 5)
    assert float(moments.rows) == len(rows)
    np.testing.assert_allclose(moments.mean, [rows.mean(0)], rtol=1e-5)
    np.testing.assert_allclose(moments.variance, [rows.var(0)], rtol=1e-5)
    published = agent.update.params(state).params
    jax.tree.map(np.testing.assert_array_equal, published, (state.params, moments))


def test_an_actor_searches_from_normalised_frames():
    plain_spec = SPEC._replace(observations=specs.Array((5,), np.float32))
    frames, played = pixels(B), []
    state = jax.jit(muzero.make(SMALL, SPEC).update.init)(jax.random.PRNGKey(0))._replace(statistics=MOMENTS)
    for spec, config, shown in (
        (SPEC, SMALL, frames),
        (plain_spec, replaced(SMALL, {"normalise_observations": False}), by_hand(frames)),
    ):
        agent = muzero.make(config, spec)
        zeros, kinds = np.zeros(B, np.float32), np.full(B, FIRST, np.int32)
        timestep = TimeStep(kinds, zeros, zeros + 1, shown)
        _, extras, _ = jax.jit(agent.policy.step)(
            agent.update.params(state), jax.random.PRNGKey(1), timestep, agent.policy.initial_state(Slots(B))
        )
        played.append(extras)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-5), *played)


def test_legal_actions_have_no_moments():
    board = BoardView(specs.Array((4,), np.float32), specs.Array((3,), bool), specs.Array((), np.int32))
    state = muzero.make(SMALL, EnvSpec(board, specs.DiscreteArray(3))).update.init(jax.random.PRNGKey(0))
    assert [x.shape for x in jax.tree.leaves(state.statistics.mean)] == [(4,)]


def test_frames_that_differ_in_a_pixel_stay_apart_in_learning():
    """On a bright ground, which all frames share, one pixel of 64 tells the state, as in Pong; rewards tell nothing."""
    rng, ground = np.random.default_rng(0), np.full(64, 200, np.uint8)
    spec, deviations = EnvSpec(specs.Array((64,), np.uint8), specs.DiscreteArray(A)), {}
    for normalise in (False, True):
        config = replaced(SMALL, {"torso.widths": (32,), "normalise_observations": normalise})
        agent = muzero.make(config, spec)
        state, step = jax.jit(agent.update.init)(jax.random.PRNGKey(0)), jax.jit(agent.update.step)
        for _ in range(60):
            lit = rng.integers(64, size=(config.sequence_length, 16))
            frames = np.where(np.arange(64) == lit[..., None], np.uint8(210), ground)
            batch = batch_of(config, frames)
            batch = batch._replace(steps=batch.steps._replace(reward=np.zeros(lit.shape, np.float32)))
            state, _, metrics = step(state, batch)
        deviations[normalise] = float(metrics["hidden_deviation"])
    assert deviations[False] < 1e-2 < 5e-2 < deviations[True], deviations


def test_the_deviation_is_that_of_the_roots_hidden_states():
    config = replaced(SMALL, {"normalise_observations": False})
    spec = SPEC._replace(observations=specs.Array((5,), np.float32))
    model = make_model(config, spec.observations, A)
    params = model.init(jax.random.PRNGKey(0))
    batch = batch_of(config, by_hand(pixels(config.sequence_length, B)))
    context = Context(params, jax.random.PRNGKey(1), jnp.int32(0))
    _, outcome = jax.jit(functools.partial(muzero_loss, model=model, config=config, search=None))(
        params, context, batch
    )
    roots = batch.steps.observation[: config.roots].reshape(-1, 5, 1)
    hidden = np.asarray(model.represent(params, roots))
    assert float(outcome.metrics["hidden_deviation"]) == pytest.approx(hidden.std(axis=0).mean(), rel=1e-4)
