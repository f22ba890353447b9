"""The replay on the device, beyond the contract: rounding in flashbax's sums."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.nodes.tables import device
from boonta.nodes.tables.device import State, make_device_table
from boonta.tests.helpers.store_conformance import REPLAY
from boonta.tests.helpers.store_judge import SIGNATURE, SLOTS, STREAM, errors_of_rows, row


@pytest.mark.once
def test_rounding_draws_no_place_without_a_sequence():
    """The sum over all is a little larger than its parts, so that the last draws of a batch lie beyond them."""
    table = make_device_table(dataclasses.replace(REPLAY, sampler="proportional"), SLOTS)
    state = table.init(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), SIGNATURE))
    for t in range(5):
        state = table.add(state, jax.tree.map(lambda leaf: leaf[None], row(t)))
    tree = state.buffer.sum_tree_state
    kept = state.buffer.replace(sum_tree_state=tree.replace(nodes=tree.nodes.at[0].add(0.5)))
    drawn = jax.jit(table.sample)(state._replace(buffer=kept), jax.random.PRNGKey(0))
    assert jnp.all(drawn.probability > 0)
    assert set(np.asarray(drawn.steps.reward)[0].astype(int).tolist()) <= {0, 2, 1000, 1002}
    assert np.all(np.asarray(state.buffer.sum_tree_state.nodes)[len(tree.nodes) // 2 + np.asarray(drawn.indices)] > 0)


def turn_of(state: State, period: int) -> int:
    """Rows after which the rows and the cores of a slot lie where they lay before."""
    return math.lcm(state.buffer.experience.reward.shape[1], period * jax.tree.leaves(state.cores)[0].shape[1])


@pytest.mark.parametrize("sampler", ["uniform", "proportional"])
@pytest.mark.parametrize("period", [1, 7])
def test_a_table_gives_the_same_once_its_number_of_rows_has_gone_back(monkeypatch, sampler, period):
    """As an int32 the number would overflow after 12 days at 2,000 steps a second in each slot."""
    table = dataclasses.replace(REPLAY, sampler=sampler, size=4 * SLOTS, period=period)
    functions = make_device_table(table, SLOTS)
    rows = [jax.tree.map(lambda leaf: leaf[None], row(t)) for t in range(200)]
    counted = functions.init(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), SIGNATURE))
    count = jax.jit(functions.add).lower(counted, rows[0]).compile()
    most = 2 * turn_of(counted, period)
    monkeypatch.setattr(device, "MOST_ROWS", most)
    go_back, sample = jax.jit(make_device_table(table, SLOTS).add), jax.jit(functions.sample)
    for steps in rows[:most]:
        counted = count(counted, steps)
    gone_back = counted
    for steps in rows[most:]:
        counted, gone_back = count(counted, steps), go_back(gone_back, steps)
        drawn = [sample(state, jax.random.PRNGKey(int(counted.rows))) for state in (counted, gone_back)]
        jax.tree.map(np.testing.assert_array_equal, *drawn)
    assert int(counted.rows) == 200 > most and (200 - int(gone_back.rows)) % turn_of(counted, period) == 0
    assert most // 2 <= int(gone_back.rows) <= most
    if sampler == "proportional":  # Flashbax's own count would overflow, too.
        assert int(gone_back.buffer.running_index) <= most + 1


@pytest.mark.once
@pytest.mark.parametrize("number", [2, 3, 4, 6])
def test_fresh_sequences_have_their_errors_however_many_rows_come_at_once(number):
    table = make_device_table(
        dataclasses.replace(REPLAY, sampler="proportional", size=10 * SLOTS, errors=errors_of_rows), SLOTS
    )
    empty = table.init(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), SIGNATURE))
    one_by_one = together = empty
    for t in range(12):
        one_by_one = table.add(one_by_one, jax.tree.map(lambda leaf, t=t: leaf[t : t + 1], STREAM))
    for t in range(0, 12, number):
        together = table.add(together, jax.tree.map(lambda leaf, t=t: leaf[t : t + number], STREAM))
    priorities = one_by_one.buffer.sum_tree_state.nodes
    np.testing.assert_allclose(together.buffer.sum_tree_state.nodes, priorities, rtol=1e-5)
    assert len(np.unique(priorities)) > 4


@pytest.mark.parametrize("size", [2, 1_000, 100_003, 1_000_000])
def test_the_number_of_rows_can_go_back_whatever_the_size(size):
    table = dataclasses.replace(REPLAY, size=size * SLOTS)
    state = jax.eval_shape(make_device_table(table, SLOTS).init, SIGNATURE)
    assert turn_of(state, table.period) <= device.MOST_ROWS // 2 < 2**31 - device.MOST_ROWS
