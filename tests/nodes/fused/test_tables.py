"""Several replay tables in a fused program: what a batch is made of, what is renewed, and how often each is drawn."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Agent, Batch, Policy, Steps, Table, Update
from boonta.envs.jax.catch import Catch
from boonta.nodes.fused import fusion, schedule, stage, tables

pytestmark = [pytest.mark.once, pytest.mark.unoptimised]

ENV = Catch(rows=4, columns=3)
LENGTH, SLOTS = 5, 4
FRESH = Table("fresh", "replay", LENGTH, 2, 8, 80, "proportional", samples_per_insert=2.0, min_size=8, share=0.25)
PAST = dataclasses.replace(FRESH, name="past", sampler="uniform", samples_per_insert=None, min_size=1, share=0.0)
AGAIN = dataclasses.replace(
    PAST, name="again", writer="reanalyzer", period=LENGTH, size=32, samples_per_insert=3.0, min_size=8, share=0.75
)
TABLES = (FRESH, PAST, AGAIN)


def recorder(tables=TABLES, batches: int = 64) -> Agent:
    """An agent that plays action `step % 3`, and whose learner state is the batches that it was given.

    Its extras are the number of the step and that of the updates before it. A sequence's error is its place in a batch.
    """

    def act(params, key, timestep, count):
        del key, timestep
        return count % 3, {"count": count, "by": jnp.full_like(count, params)}, count + 1

    def init(key):
        def block(*shape, dtype=jnp.int32):
            return jnp.zeros((batches, LENGTH, 8, *shape), dtype)

        real, extras = block(dtype=jnp.float32), {"count": block(), "by": block()}
        steps = Steps(block(4, 3, dtype=jnp.float32), block(), real, real, block(), extras, block())
        return Batch(steps=steps, probability=jnp.zeros((batches, 8))), jnp.int32(0)

    def update(state, batch: Batch):
        held, made = state
        held = jax.tree.map(lambda all, new: all.at[made].set(new), held, batch)
        return (held, made + 1), jnp.arange(8.0), {}

    policy = Policy(lambda slots: jnp.zeros(slots.size, jnp.int32), act)
    return Agent(policy, policy, Update(init, update, lambda state: state[1]), tables)


def run(agent: Agent, rounds: int, **settings):
    """The batches of `rounds` rounds, in order, the state after them, the last metrics and the program."""
    fused = fusion.fuse(agent, ENV, SLOTS, **settings)
    state, _ = jax.jit(fused.init)(agent.update.init(jax.random.PRNGKey(0)), 0, jax.random.PRNGKey(1))
    state, outcome = jax.jit(fused.rounds)(state, rounds)
    held, made = state.learner
    return [jax.tree.map(lambda x, i=i: np.asarray(x[i]), held) for i in range(int(made))], state, outcome, fused


@pytest.fixture(scope="module")
def recorded():
    return run(recorder(), 8)


def test_each_table_gives_its_share_and_the_renewed_are_what_was_recorded_with_new_outputs(recorded):
    batches, *_ = recorded
    recorded_rows: set[bytes] = set()
    renewed_rows: list[bytes] = []
    for i, batch in enumerate(batches):
        steps = batch.steps
        fresh, again = (jax.tree.map(lambda x, part=part: x[:, part], steps) for part in (slice(2), slice(2, None)))
        starts = fresh.extras["count"][0]
        np.testing.assert_array_equal(fresh.extras["count"] - starts, np.arange(LENGTH)[:, None].repeat(2, 1))
        assert np.all(starts % 2 == 0)
        np.testing.assert_array_equal(fresh.version, fresh.extras["by"])
        # What was played back begins anew, by one version, newer than its steps may be; its actions are the old ones.
        np.testing.assert_array_equal(again.extras["count"], np.arange(LENGTH)[:, None].repeat(6, 1))
        assert np.all(again.version == again.version[0]) and np.all(again.version <= i)
        np.testing.assert_array_equal(again.version, again.extras["by"])
        np.testing.assert_array_equal((again.action - again.action[0]) % 3, (again.extras["count"]) % 3)
        for part, kept in ((fresh, recorded_rows.add), (again, renewed_rows.append)):
            for column in range(part.reward.shape[1]):
                shown = (part.observation, part.step_type, part.reward, part.discount, part.action)
                kept(b"".join(np.ascontiguousarray(leaf[:, column]).tobytes() for leaf in shown))
    assert any((batch.steps.action[0, 2:] != 0).any() for batch in batches)  # Some begin where the policy would not.
    assert len(recorded_rows & set(renewed_rows)) > 5


def test_a_policy_to_which_the_past_is_played_back_remembers_the_recorded_actions():
    """It would always take action 2; its extras are the last action that it knows of."""

    def act(params, key, timestep, action):
        return jnp.full_like(action, 2), {"before": action}, jnp.full_like(action, 2)

    policy = Policy(lambda slots: jnp.zeros(slots.size, jnp.int32), act, executed=lambda state, action: action)
    step, numbers = np.ones((3, 2), np.int32), np.ones((3, 2), np.float32)
    action = np.array([[1, 0], [0, 1], [1, 1]], np.int32)
    steps = Steps(numbers, step, numbers, numbers, action, {"before": step}, step)
    found = stage.play_back(policy, (), jnp.int32(7), steps, jax.random.PRNGKey(0))
    assert found.extras["before"].tolist() == [[0, 0], [1, 0], [0, 1]]
    assert found.action.tolist() == action.tolist() and found.version.tolist() == [[7, 7]] * 3


def test_ratios_of_samples_to_inserts_are_kept_by_all_tables(recorded):
    batches, state, outcome, fused = recorded
    updates = len(batches)
    rounds = updates // fused.updates
    assert updates == int(state.updates) == 8 * fused.updates
    inserted = rounds * fused.env_steps / FRESH.period
    assert updates * 2 == inserted * FRESH.samples_per_insert
    assert updates * 6 == rounds * fused.renewed * AGAIN.samples_per_insert
    again = state.replay["reanalyzer"]
    slots = again.buffer.experience.reward.shape[0]
    assert slots * int(again.rows) == LENGTH * (fused.first_renewed + rounds * fused.renewed)
    assert SLOTS * int(state.replay["actor"].rows) == fused.first_steps + rounds * fused.env_steps
    assert fused.first_renewed >= AGAIN.min_size
    assert outcome.metrics["batch_share/fresh"] == 0.25 and outcome.metrics["batch_share_wanted/again"] == 0.75
    age = updates - 1 - np.mean(batches[-1].steps.version[:, 2:])
    assert outcome.metrics["target_age/again"] == pytest.approx(age)
    assert outcome.metrics["target_age/fresh"] > age


def test_the_age_of_targets_is_exact_after_days_of_updates(recorded):
    """A float32 has only multiples of 128 there."""
    steps = recorded[0][-1].steps
    batch = Batch(steps._replace(version=jnp.full_like(steps.version, 2**30 + 1)), probability=jnp.ones(8))
    made = tables.make_tables(TABLES, SLOTS, schedule.make_schedule(TABLES, SLOTS, 8, 1))
    assert made.origin(jnp.int32(2**30 + 4), batch)["target_age/again"] == pytest.approx(3.0)


def test_errors_go_back_to_the_table_that_the_sequence_came_from(recorded):
    """The second of the two fresh places is drawn often, since its error is 1, where the first one's is 0."""
    _, state, *_ = recorded
    priorities = np.asarray(state.replay["actor"].buffer.sum_tree_state.nodes)
    leaves = priorities[len(priorities) // 2 :]  # A full binary tree's second half.
    assert np.isclose(leaves, 0.001).any() and np.isclose(leaves, 1.001).any()
    assert leaves.max() < priorities.max() and not np.isclose(leaves, 2.001).any()


def test_unrolled_is_the_same(recorded):
    looped, _, _, fused = recorded
    again, state, _, _ = run(recorder(), 1, unrolled=True)
    assert len(again) == fused.updates
    for one, other in zip(looped, again):
        jax.tree.map(np.testing.assert_array_equal, one, other)
    assert int(state.updates) == fused.updates


def test_all_may_be_renewed():
    """Then sequences are learned from as often as they are renewed, times their draws."""
    past = dataclasses.replace(PAST, samples_per_insert=0.5, min_size=8)
    batches, _, _, fused = run(recorder((past, dataclasses.replace(AGAIN, share=1.0))), 4)
    assert all(np.all(batch.steps.version == batch.steps.version[0]) for batch in batches)
    inserted, rounds = 4 * fused.env_steps / past.period, 4
    assert rounds * fused.renewed == inserted * 0.5 and len(batches) * 8 == rounds * fused.renewed * 3


def test_tables_of_actors_alone_share_their_rows():
    """A batch half of which is drawn by error; both tables are in one state, and nothing is renewed."""
    fresh = dataclasses.replace(FRESH, share=0.5)
    even = dataclasses.replace(fresh, name="even", sampler="uniform")
    batches, state, outcome, fused = run(recorder((even, fresh)), 4)
    assert set(state.replay) == {"actor"} and fused.renewed == fused.first_renewed == 0
    assert len(batches) * 4 == 4 * fused.env_steps / 2 * 2.0
    assert outcome.metrics["batch_share/even"] == 0.5 and not np.any(batches[-1].probability[:4] != 1)
    assert np.any(batches[-1].probability[4:] != 1)


def make(num_replayed: int = 32, devices: int = 1, tables=TABLES, num_envs: int = SLOTS) -> schedule.Schedule:
    return schedule.make_schedule(tables, num_envs, num_replayed, devices)


def test_as_many_are_renewed_at_once_as_rounds_and_devices_allow():
    """Each schedule is (period, rollouts, updates, renewed, every)."""
    assert make() == (2, 1, 4, 8, 4)  # 2 a batch's fresh part, 6 / 3 are renewed per update.
    assert make(num_replayed=5) == (2, 1, 4, 4, 2)
    assert make(num_replayed=1) == (2, 1, 4, 2, 1)
    assert make(devices=3) == (2, 3, 12, 6, 3)
    assert make(devices=64) == (2, 8, 32, 64, 32)
    odd = (FRESH, PAST, dataclasses.replace(AGAIN, samples_per_insert=4.0))
    assert make(tables=odd) == (2, 1, 4, 6, 4)  # 3 per 2 updates.
    assert make(tables=(dataclasses.replace(FRESH, share=1.0),)) == (2, 1, 1, 0, 1)


def change(name: str, **changes):
    return tuple(dataclasses.replace(table, **changes) if table.name == name else table for table in TABLES)


def test_every_table_is_filled_to_its_minimum_first():
    assert fusion.fuse(recorder(), ENV, SLOTS).first_steps == SLOTS * 8  # 7 rows have 2 sequences of each slot.
    later = change("past", min_size=12)
    assert fusion.fuse(recorder(later), ENV, SLOTS).first_steps == SLOTS * 10
    odd = change("past", min_size=9)  # Three sequences of each slot, since two would be 8.
    assert fusion.fuse(recorder(odd), ENV, SLOTS).first_steps == SLOTS * 10
    more = change("again", min_size=20)
    assert fusion.fuse(recorder(more), ENV, SLOTS).first_renewed == 24  # 8 at once.


SELDOM = (
    dataclasses.replace(FRESH, samples_per_insert=1 / 32),
    PAST,
    dataclasses.replace(AGAIN, samples_per_insert=7.0),
)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            (*TABLES, Table("line", "queue", LENGTH, 2, 8, 80, share=0.0)),
            "'line'.*; in a fused program a queue must be",
        ),
        (change("past", sampler="proportional"), "only one may draw by errors.*'fresh': 'proportional', 'past'"),
        (change("past", size=81), "tables of one actor must have one size in a fused program: .*'past': 81"),
        (change("past", samples_per_insert=1.0), "'past': samples_per_insert is 1.0; .* where 'fresh' sets the pace"),
        (
            change("again", samples_per_insert=4_000.0),
            "'again': samples_per_insert is 4000.0, and a batch has 6 of its",
        ),
        (
            change("again", size=9, samples_per_insert=0.5),
            "'again': size is 9; with 12 environments it must be at least",
        ),
        (change("again", period=2), "table 'again' has sequences of 5 steps every 2; both must be 5"),
        ((FRESH, AGAIN), "reanalyzers need a replay table to read"),
        (
            SELDOM,
            "16 rollouts make 1 updates, and 6 sequences of table 'again' are renewed every 7: .* has 112 rollouts;",
        ),
    ],
)
def test_tables_that_cannot_be_kept_together_are_refused(tables, message):
    with pytest.raises(ValueError, match=message):
        fusion.fuse(recorder(tables), ENV, SLOTS)
