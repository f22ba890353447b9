"""What a fused program learns from: the table's contract, kept on the device."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Agent, Batch, Policy, Steps, Table, Update
from boonta.envs.jax.catch import Catch
from boonta.nodes.fused import fusion, schedule, stage
from boonta.tests.helpers import fused

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

ENV = Catch(rows=4, columns=3)


def recorder(table: Table, batches: int = 8) -> Agent:
    """An agent that plays action `step % 3` and whose learner state is the last batches that it was given."""

    def act(params, key, timestep, count):
        return count % 3, {"count": count}, count + 1

    def update(state, batch: Batch):
        held, made = state
        held = jax.tree.map(lambda all, new: all.at[made % batches].set(new), held, batch)
        priorities = jnp.ones(table.batch_size) if table.is_prioritised else None  # All alike.
        return (held, made + 1), priorities, {"made": made.astype(jnp.float32)}

    def init(key):
        def block(*shape, dtype=jnp.int32):
            return jnp.zeros((batches, table.sequence_length, table.batch_size, *shape), dtype)

        real = block(dtype=jnp.float32)
        steps = Steps(block(4, 3, dtype=jnp.float32), block(), real, real, block(), {"count": block()}, block())
        return Batch(steps=steps, probability=jnp.zeros((batches, table.batch_size))), jnp.int32(0)

    policy = Policy(lambda slots: jnp.zeros(slots.size, jnp.int32), act)
    return Agent(policy, policy, Update(init, update, lambda state: ()), (table,))


def queue(length: int = 5, period: int = 4, batch_size: int = 2) -> Table:
    return Table("trajectories", "queue", length, period, batch_size, size=99)


def replay(**changes) -> Table:
    table = Table("trajectories", "replay", 5, 2, 4, size=40, sampler="uniform", samples_per_insert=2.0, min_size=8)
    return dataclasses.replace(table, **changes)


def run(agent: Agent, num_envs: int, rounds: int):
    """The batches that `rounds` rounds gave the update, in order, and the state after them."""
    fused = fusion.fuse(agent, ENV, num_envs)
    state, before = fused.init(agent.update.init(jax.random.PRNGKey(0)), 0, jax.random.PRNGKey(1))
    state, outcome = jax.jit(fused.rounds)(state, rounds)
    held, made = state.learner
    batches = [jax.tree.map(lambda x, i=i: np.asarray(x[i]), held) for i in range(int(made))]
    episodes = jax.tree.map(lambda *x: float(sum(x)), before, outcome.episodes)
    return batches, state, episodes, fused


@pytest.mark.parametrize(("length", "period"), [(5, 4), (5, 2), (3, 3), (2, 4)])
def test_a_queues_sequences_go_on_where_the_table_says(length, period):
    batches, _, _, fused = run(recorder(queue(length, period)), 2, 4)
    assert len(batches) == 4
    for i, batch in enumerate(batches):
        expected = i * period + np.arange(length)
        np.testing.assert_array_equal(batch.steps.extras["count"], np.stack([expected] * 2, axis=1))
        np.testing.assert_array_equal(batch.probability, 1)
        rows_before = max(0, length - period)  # In the first batch no update precedes them.
        version = np.where(np.arange(length) < rows_before, max(0, i - 1), i)
        if length >= period and length - period <= period:
            np.testing.assert_array_equal(batch.steps.version[:, 0], version)
    assert fused.env_steps == 2 * period and fused.first_steps == 2 * max(0, length - period)


def test_rows_hold_what_the_environment_showed_and_what_was_done_in_it():
    batches, _, episodes, _ = run(recorder(queue()), 2, 4)
    rows = jax.tree.map(lambda *x: np.concatenate([y[:4] for y in x]), *(batch.steps for batch in batches))
    for slot in range(2):
        # Episodes of Catch with 4 rows: FIRST, MID, MID, LAST.
        np.testing.assert_array_equal(rows.step_type[:, slot], [0, 1, 1, 2] * 4)
        np.testing.assert_array_equal(rows.action[:, slot], np.arange(16) % 3)
        np.testing.assert_array_equal(rows.discount[:, slot], [1, 1, 1, 0] * 4)
        caught = rows.observation[3::4, slot, -1].sum(axis=1) == 1  # Ball and paddle in one place.
        np.testing.assert_array_equal(rows.reward[3::4, slot], np.where(caught, 1, -1))
    assert episodes.number == 8 and episodes.steps == 8 * 3
    assert episodes.returns == rows.reward[:16].sum()


def test_more_slots_are_dealt_out_to_several_updates():
    agent = recorder(queue(batch_size=2))
    one, _, _, _ = run(recorder(queue(batch_size=6)), 6, 2)
    dealt, _, _, fused = run(agent, 6, 2)
    assert fused.updates == 3 and len(dealt) == 6
    for i, batch in enumerate(dealt):
        whole = one[i // 3].steps.observation
        np.testing.assert_array_equal(batch.steps.observation, whole[:, i % 3 :: 3])


def test_unrolled_is_the_same():
    agent = recorder(queue(batch_size=2))
    looped, _, _, _ = run(agent, 6, 1)
    fused = fusion.fuse(agent, ENV, 6, unrolled=True)
    state, _ = fused.init(agent.update.init(jax.random.PRNGKey(0)), 0, jax.random.PRNGKey(1))
    state, _ = jax.jit(fused.round)(state)
    for i, batch in enumerate(looped):
        jax.tree.map(lambda a, b, i=i: np.testing.assert_array_equal(a[i], b), state.learner[0], batch)


def test_a_replays_sequences_are_whole_and_from_the_table():
    table = replay()
    batches, state, _, fused = run(recorder(table), 4, 4)
    assert (fused.updates, fused.env_steps) == (2, 8)  # 2 samples an insert, 4 inserts a round, 4 samples an update
    rounds_before = 2 + 2  # (5 - 2) / 2 rollouts for the overlap, 8 / 4 for min_size
    assert fused.first_steps == rounds_before * 2 * 4
    for i, batch in enumerate(batches):
        counts = batch.steps.extras["count"]
        np.testing.assert_array_equal(counts - counts[0], np.stack([np.arange(5)] * 4, axis=1))
        played = (rounds_before + 1 + i // 2) * 2
        assert np.all(counts[0] % 2 == 0) and np.all(counts[-1] < played)
    assert int(state.updates) == 8


@pytest.mark.parametrize("sampler", ["uniform", "proportional"])
def test_a_full_replays_sequences_begin_where_the_contract_says_and_are_the_newest(sampler):
    table = replay(sampler=sampler)
    batches, *_ = run(recorder(table, batches=80), 4, 40)
    for i, batch in enumerate(batches):
        counts = batch.steps.extras["count"]
        np.testing.assert_array_equal(counts - counts[0], np.stack([np.arange(5)] * 4, axis=1))
        newest = (4 + 1 + i // 2) * 2 - 6  # The first row of a slot's newest whole sequence.
        assert np.all(counts[0] % 2 == 0) and np.all((newest - 2 * 10 < counts[0]) & (counts[0] <= newest))
    oldest = [int((4 + 1 + i // 2) * 2 - 6 - batch.steps.extras["count"][0].min()) for i, batch in enumerate(batches)]
    assert max(oldest) == 2 * 9  # 40 sequences in 4 slots.


def test_samples_per_insert_may_be_a_fraction():
    assert schedule.ratio(replay(samples_per_insert=0.5, batch_size=8), 4) == (4, 1)
    assert schedule.ratio(replay(samples_per_insert=3.0, batch_size=8), 4) == (2, 3)
    assert schedule.ratio(replay(samples_per_insert=0.0006), 4_000) == (5, 3)
    assert schedule.ratio(replay(samples_per_insert=None), 4) == (1, 1)


@pytest.mark.parametrize(
    ("table", "num_envs", "message"),
    [
        (queue(batch_size=4), 6, "num_envs is 6; it must be a multiple of batch_size, 4"),
        (replay(sampler="rank"), 4, "sampler is 'rank'; on the device it must be 'uniform' or 'proportional'"),
        (replay(samples_per_insert=0.001), 4, "samples_per_insert is 0.001, num_envs 4, batch_size 4"),
        (replay(samples_per_insert=0.0004), 64, "that makes 0.0064 updates a rollout; it must be a fraction over at"),
        (replay(size=8, min_size=8), 6, "size is 8; with 6 environments it must be at least 12"),
        (replay(sampler="proportional", priority_exponent=2.0), 4, "priority_exponent is 2.0; on the device"),
    ],
)
def test_tables_that_cannot_be_kept_are_refused(table, num_envs, message):
    with pytest.raises(ValueError, match=message):
        fusion.fuse(recorder(table), ENV, num_envs)


def test_many_updates_are_not_compiled_one_by_one():
    table = replay(samples_per_insert=17.0)
    assert fusion.fuse(recorder(table), ENV, 4).updates == 17
    with pytest.raises(ValueError, match="17.0: that makes 17 updates a round; on CPU, .* it must be at most 16"):
        fusion.fuse(recorder(table), ENV, 4, unrolled=True)


def test_renewals_are_compiled_one_by_one_too():
    settings = {"num_replayed": 2, "unrolled": True}
    assert fusion.fuse(fused.agent("several"), fused.ENV, 16, **settings).updates == 8
    with pytest.raises(ValueError, match="makes 18 updates and renewals a round; on CPU, .* it must be at most 16"):
        fusion.fuse(fused.agent("several"), fused.ENV, 18, **settings)


def test_evaluation_plays_one_episode_in_each_slot():
    follow = Policy(lambda slots: (), lambda params, key, timestep, state: (params(timestep), {}, state))

    def chase(timestep):
        column = jnp.arange(3)
        ball = jnp.argmax(timestep.observation[:, :-1].sum(axis=1), axis=-1)
        paddle = jnp.sum(timestep.observation[:, -1] * column, axis=-1).astype(jnp.int32)
        return 1 + jnp.sign(ball - paddle)

    results = stage.play(ENV, follow, chase, 20, 100, jax.random.PRNGKey(0))
    assert results["eval_return"] == 1 and results["eval_cut"] == 0
    still = stage.play(ENV, follow, lambda timestep: jnp.ones(20, jnp.int32), 20, 100, jax.random.PRNGKey(0))
    assert -1 < still["eval_return"] < 1 and still["eval_return_min"] == -1
    mean = float(still["eval_return"])  # Of twenty returns that are 1 or -1.
    assert results["eval_return_se"] == 0 and still["eval_return_se"] == pytest.approx(((1 - mean**2) / 19) ** 0.5)
    cut = stage.play(ENV, follow, chase, 20, 2, jax.random.PRNGKey(0))
    assert cut["eval_cut"] == 20 and cut["eval_return"] == 0


def test_a_round_is_fresh_where_the_table_wants_it():
    """Sequences that share no row have none of an older round; the second update of a round is one older."""
    table = dataclasses.replace(queue(period=5), max_staleness=1)
    batches, *_ = run(recorder(table), num_envs=4, rounds=3)
    ages = [set((i - batch.steps.version).ravel().tolist()) for i, batch in enumerate(batches)]
    assert ages == [{0}, {1}] * 3
    with pytest.raises(ValueError, match="all actors have 4 environments .* up to 2"):
        fusion.fuse(recorder(dataclasses.replace(table, max_staleness=0)), ENV, 4)
