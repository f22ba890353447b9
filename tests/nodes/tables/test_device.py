"""The replay on the device, beyond the contract: rounding in flashbax's sums."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.nodes.tables.conformance import REPLAY
from boonta.nodes.tables.device import make_device_table
from boonta.nodes.tables.judge import SIGNATURE, SLOTS, row


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
