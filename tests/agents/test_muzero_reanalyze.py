"""Renewed targets, within the update and by replaying recorded steps to the policy; both ways give the same."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents import muzero
from boonta.agents.base import Batch, Slots, Steps
from boonta.agents.groups import Replay, Torso
from boonta.agents.muzero.groups import Puct
from boonta.agents.muzero.history import recall
from boonta.agents.muzero.networks import make_model
from boonta.agents.muzero.policy import Extras
from boonta.agents.muzero.reanalyze import reanalyze
from boonta.agents.muzero.search import make_search
from boonta.agents.views import view_of
from boonta.envs.catch import Catch
from boonta.envs.open_spiel import OpenSpiel
from boonta.nodes.acting.replayed import Replayed
from boonta.nodes.fused import stage
from boonta.nodes.reanalyzer import recorded_table
from boonta.nodes.tables.contract import learned_from, written_by
from boonta.tests.helpers.params import drawn

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]
CONFIG = muzero.Config(
    torso=Torso("mlp", widths=(8,), normalise=True),
    head_width=8,
    num_simulations=4,
    roots=3,
    unroll_length=2,
    bootstrap_length=2,
    replay=Replay(batch_size=4),
    search="puct",
    puct=Puct(dirichlet_fraction=0.0),  # Only the action is random then, and nothing learns from it.
    frame_stack=2,
    reanalyze_ratio=0.5,
)
BATCH = 4


@functools.cache
def recorded(env, config):
    """An agent, params of it, what other params recorded, and what the policy makes of it when it is replayed."""
    agent = muzero.make(config, env.spec)
    params, steps = make_params(agent, 0), record(env, agent, config)
    return agent, params, steps, play_back(env, agent, params, steps)


def make_params(agent, seed):
    """Params whose policies and values differ from state to state."""
    return agent.update.params(drawn(agent.update.init, seed))


def record(env, agent, config, batch=BATCH) -> Steps:
    """Sequences as actors write them with params of another seed, leaves [T, B, ...]."""
    params = make_params(agent, 1)
    act, stepped, state = jax.jit(agent.policy.step), env(batch, 0), agent.policy.initial_state(Slots(batch))
    timestep, rows = stepped.reset(), []
    for t in range(6 + config.sequence_length):
        action, extras, state = jax.device_get(act(params, jax.random.PRNGKey(t), timestep, state))
        shown = (timestep.observation, timestep.step_type, timestep.reward, timestep.discount)
        rows.append(Steps(*shown, action, extras, np.zeros(batch, np.int32)))
        timestep = stepped.step(action)
    return jax.tree.map(lambda *x: np.stack(x), *rows[6:])  # The sequences start in the middle of episodes.


def play_back(env, agent, params, steps: Steps) -> Steps:
    """The policy's outputs for sequences that are replayed to it, leaves [T, B, ...]."""
    batch = steps.reward.shape[1]
    columns = iter([jax.tree.map(lambda x, i=i: x[:, i], steps) for i in [*range(batch)] * 2])
    stepped, state, rows = (
        Replayed(env.spec, batch, lambda: next(columns)),
        agent.policy.initial_state(Slots(batch)),
        [],
    )
    # Frames of another episode are still in the policy's memory, as they are when a slot goes on with a new sequence.
    state = jax.tree.map(lambda x: np.asarray(x) + np.ones((), x.dtype), state)
    timestep, act = stepped.reset(), jax.jit(agent.policy.step)
    for t in range(len(steps.reward)):
        action, extras, state = jax.device_get(act(params, jax.random.PRNGKey(100 + t), timestep, state))
        shown = (timestep.observation, timestep.step_type, timestep.reward, timestep.discount)
        executed = stepped.executed_action(action)
        state = agent.policy.executed(state, executed)
        rows.append(Steps(*shown, executed, extras, np.ones(batch, np.int32)))
        timestep = stepped.step(executed)
    return jax.tree.map(lambda *x: np.stack(x), *rows)


def test_a_fused_program_plays_back_as_reanalyzers_do():
    config, env = dataclasses.replace(CONFIG, action_history=True), Catch()
    agent, params, steps, played = recorded(env, config)
    back = jax.jit(functools.partial(stage.play_back, agent.policy))
    fused = back(params, np.int32(7), jax.tree.map(np.asarray, steps), jax.random.PRNGKey(3))
    assert np.all(fused.version == 7) and fused.core == ()
    rows = slice(config.context, None)  # Before, the node still sees the sequence before.
    jax.tree.map(
        lambda ours, theirs: np.testing.assert_allclose(ours[rows], theirs[rows], rtol=1e-4, atol=1e-5),
        fused.extras,
        played.extras,
    )
    for name in ("observation", "step_type", "reward", "discount", "action"):
        jax.tree.map(np.testing.assert_array_equal, getattr(fused, name), getattr(steps, name))


def within_update(env, params, steps: Steps, config) -> Steps:
    model = make_model(config, view_of(env.spec.observations), env.spec.actions.num_values)
    search = make_search(config, model, env.spec.actions.num_values, explore=True)

    @jax.jit
    def renew(params, key, steps):
        return reanalyze(params, key, *recall(config, steps), search=search, config=config)

    return jax.device_get(renew(params.params, jax.random.PRNGKey(7), steps))


@pytest.mark.parametrize(
    ("env", "changes"),
    [
        (Catch(), {}),
        (Catch(), {"value_target": "search"}),
        (Catch(), {"action_history": True}),
        (Catch(), {"action_history": True, "frame_stack": 1}),
        (OpenSpiel("tic_tac_toe"), {"discount": -1.0, "frame_stack": 1}),
    ],
)
def test_both_ways_agree_on_the_same_sequences_and_params(env, changes):
    config = dataclasses.replace(CONFIG, **changes)
    _, params, steps, played = recorded(env, config)
    without_context = jax.jit(lambda steps: recall(config, steps)[1])
    played, rest = jax.device_get([without_context(x) for x in (played, steps)])
    renewed = within_update(env, params, steps, config)
    rows = config.rows if config.value_target == "search" else config.roots + config.unroll_length
    changed = np.abs(renewed.extras.value - rest.extras.value).max(axis=0) > 0
    searched, kept = np.flatnonzero(changed), np.flatnonzero(~changed)
    assert searched.tolist() in ([0, 2], [1, 3])  # Half of the sequences, spread over the batch.
    for name in ("policy", "value"):
        new, back = getattr(renewed.extras, name), getattr(played.extras, name)
        old = getattr(rest.extras, name)
        np.testing.assert_allclose(new[:rows, searched], back[:rows, searched], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(new[rows:], old[rows:])
        np.testing.assert_array_equal(new[:, kept], old[:, kept])
        assert np.abs(new[:rows, searched] - old[:rows, searched]).max() > 1e-3
    # All else is as it was recorded.
    for name in ("observation", "step_type", "reward", "discount", "action"):
        jax.tree.map(np.testing.assert_array_equal, getattr(played, name), getattr(rest, name))


def test_no_place_of_a_batch_is_always_left_out():
    """A batch may be sorted by slot: then those of one place are the same slots'."""
    batch, shape = 10, (CONFIG.rows, 10)
    ones, zeros = jnp.ones(shape), jnp.zeros(shape, jnp.int32)
    steps = Steps(zeros, zeros, ones, ones, zeros, Extras(jnp.zeros((*shape, 2)), 0.0 * ones), zeros)
    config = dataclasses.replace(CONFIG, reanalyze_ratio=0.8)

    def search(params, key, stack, legal):
        return Extras(jnp.ones(legal.shape), jnp.ones(len(legal)))

    def renewed(key):
        return reanalyze((), key, zeros, steps, search=search, config=config).extras.value[0]

    found = np.asarray(jax.jit(jax.vmap(renewed))(jax.random.split(jax.random.PRNGKey(0), 1000)))  # [keys, B]
    np.testing.assert_array_equal(found.sum(axis=1), 0.8 * batch)
    np.testing.assert_allclose(found.mean(axis=0), 0.8, atol=0.06)


def test_the_update_learns_from_what_the_target_network_finds_now(monkeypatch):
    """A search whose policy depends only on its params."""

    def found(params, key, stack, steps, *, search, config):
        del key, stack, search, config
        share = 1 / (2 + jnp.sum(jnp.abs(jax.tree.leaves(params)[0])))
        policy = jnp.broadcast_to(jnp.stack([share, 1 - share, 0.0 * share]), steps.extras.policy.shape)
        return steps._replace(extras=steps.extras._replace(policy=policy))

    monkeypatch.setattr("boonta.agents.muzero.loss.reanalyze", found)
    agent = muzero.make(dataclasses.replace(CONFIG, reanalyze="update"), Catch().spec)
    state = drawn(agent.update.init)
    shape = (CONFIG.sequence_length, BATCH)
    ones, zeros = np.ones(shape, np.float32), np.zeros(shape, np.int32)
    extras = Extras(np.ones((*shape, 3), np.float32) / 3, ones)
    steps = Steps(np.zeros((*shape, 10, 5), np.float32), zeros + 1, ones, ones, zeros, extras, zeros)
    step = jax.jit(agent.update.step)
    for scale in (1.0, 3.0):
        target_params = jax.tree.map(lambda x, scale=scale: x + scale, state.target_params)
        metrics = step(state._replace(target_params=target_params), Batch(steps, np.ones(BATCH, np.float32)))[2]
        share = 1 / (2 + float(np.sum(np.abs(jax.tree.leaves(target_params)[0]))))
        entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
        assert float(metrics["search_entropy"]) == pytest.approx(entropy, rel=1e-4)


def test_tables_with_a_ratio():
    fresh, past, reanalyzed = muzero.make(CONFIG, Catch().spec).tables
    length = CONFIG.sequence_length
    assert (fresh.name, fresh.share, fresh.samples_per_insert, fresh.period) == ("trajectories", 0.5, 4.0, 3)
    assert (past.share, past.samples_per_insert, past.size, past.sampler) == (0, None, fresh.size, "uniform")
    assert (reanalyzed.share, reanalyzed.sequence_length, reanalyzed.period) == (0.5, length, length)
    assert reanalyzed.size < fresh.size / 10 and reanalyzed.sampler == "uniform"
    assert written_by("actor", (fresh, past, reanalyzed)) == (fresh, past)
    assert learned_from((fresh, past, reanalyzed)) == (fresh, reanalyzed)


@pytest.mark.parametrize("change", [{"reanalyze_ratio": 0.0}, {"reanalyze": "update"}])
def test_without_reanalyzers_there_is_one_table(change):
    (table,) = muzero.make(dataclasses.replace(CONFIG, **change), Catch().spec).tables
    assert table.share == 1.0


def test_with_a_ratio_of_one_actors_fill_only_what_reanalyzers_read():
    past, reanalyzed = muzero.make(dataclasses.replace(CONFIG, reanalyze_ratio=1.0), Catch().spec).tables
    assert learned_from((past, reanalyzed)) == (reanalyzed,) and reanalyzed.share == 1.0
    assert written_by("actor", (past, reanalyzed)) == (past,) == (recorded_table((past, reanalyzed)),)
    assert (past.min_size, past.size) == (CONFIG.replay.min_size, CONFIG.replay.size)
    assert past.samples_per_insert * reanalyzed.samples_per_insert == CONFIG.replay.samples_per_insert == 4.0


@pytest.mark.parametrize("ratio", [-0.1, 1.5, float("nan")])
def test_a_ratio_that_is_no_share_is_refused(ratio):
    with pytest.raises(ValueError, match=r"muzero.Config: reanalyze_ratio is .*; it must be in \[0, 1\]"):
        dataclasses.replace(CONFIG, reanalyze_ratio=ratio)
