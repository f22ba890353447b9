"""A policy in this process: the randomness and the core of each step, and when its params may change."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Policy, Slots, Table
from boonta.envs.catch import Catch
from boonta.nodes.acting.local import Acting, jit_policy, refresh_rows
from boonta.nodes.watch.stopwatch import Stopwatch


def test_each_step_has_a_key_of_its_own_and_the_core_of_before():
    def step(params, key, timestep, state):
        return jnp.zeros(1, jnp.int32), key[None], state + 1

    policy = Policy(lambda slots: jnp.zeros(slots.size, jnp.int32), step, core=lambda state: state)
    acting = Acting(jit_policy(policy), Slots(1), 3, Stopwatch())
    timestep = Catch()(1, 0).reset()
    for t in range(3):
        _, key, core = acting({}, timestep)
        np.testing.assert_array_equal(key[0], jax.random.fold_in(jax.random.PRNGKey(3), t))
        assert core.tolist() == [t]


@pytest.mark.parametrize(("period", "rows"), [(1, 4), (2, 4), (3, 6), (4, 4), (5, 5), (20, 20)])
def test_params_are_looked_for_after_whole_periods_of_four_steps_at_least(period, rows):
    assert refresh_rows(Table("t", "queue", sequence_length=6, period=period, batch_size=4, size=100)) == rows
