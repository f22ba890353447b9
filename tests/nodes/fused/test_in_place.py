"""A fused program writes into its replay table in place, however large that is."""

from __future__ import annotations

import dataclasses
import re

import jax
import pytest

from boonta.agents import dqn
from boonta.envs.jax.catch import Catch
from boonta.nodes.fused import fusion

pytestmark = pytest.mark.once
SLOTS, ROWS = 4, 1009  # No other array of the program has so many rows.


@pytest.mark.parametrize("sampler", ["uniform", "proportional"])
def test_no_round_copies_a_table(sampler):
    env = Catch(rows=4, columns=3)
    replay = dataclasses.replace(
        dqn.CATCH.replay, sampler=sampler, batch_size=8, size=SLOTS * ROWS, min_size=8, samples_per_insert=2.0
    )
    config = dataclasses.replace(dqn.CATCH, replay=replay, bootstrap_length=1)
    agent = dqn.make(config, env.spec)
    fused = fusion.fuse(agent, env, SLOTS)
    state, _ = jax.eval_shape(
        fused.init, jax.eval_shape(agent.update.init, jax.random.PRNGKey(0)), 0, jax.random.PRNGKey(1)
    )
    program = jax.jit(fused.rounds, donate_argnums=0).lower(state, 1).compile().as_text()
    table = rf"\[{SLOTS},{ROWS + 1}[\],]"  # One more row, from which the newest transition bootstraps.
    assert re.search(table, program)
    assert not re.findall(rf"= \w+{table}\S* copy\(", program)
