"""Recurrent cores: they begin anew where episodes do, and a burn-in brings a state up to date without a gradient."""

from __future__ import annotations

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from boonta.agents import recurrence
from boonta.envs.base import FIRST, LAST, MID
from boonta.tests.helpers.params import drawn

SIZE, T, B = 3, 6, 2
CORE = hk.without_apply_rng(hk.transform(lambda x, step_type, state: recurrence.unroll_lstm(x, step_type, state, SIZE)))
X = np.random.default_rng(0).normal(size=(T, B, 4)).astype(np.float32)
ON = np.full((T, B), MID, np.int32)
PARAMS = drawn(lambda key: CORE.init(key, X, ON, recurrence.initial_lstm(SIZE, B)))


def unroll(params, inputs, state):
    return CORE.apply(params, *inputs, state)


def random_state(seed):
    zeros = recurrence.initial_lstm(SIZE, B)
    return jax.tree.map(lambda x: x + np.random.default_rng(seed).normal(size=x.shape), zeros)


def test_a_core_forgets_where_an_episode_starts():
    step_type = ON.copy()
    step_type[2, 0], step_type[3, 0] = LAST, FIRST
    out, last = unroll(PARAMS, (X, step_type), random_state(1))
    fresh, _ = unroll(PARAMS, (X[3:], step_type[3:]), recurrence.initial_lstm(SIZE, B))
    np.testing.assert_allclose(out[3:, 0], fresh[:, 0], rtol=1e-5)
    assert np.abs(out[3:, 1] - fresh[:, 1]).max() > 1e-3
    np.testing.assert_allclose(out[-1], last.hidden)
    assert recurrence.initial_lstm(0, B) == ()


def test_what_led_to_a_row_is_put_beside_it_but_not_over_an_episodes_start():
    step_type = np.array([[MID, FIRST]])
    x = recurrence.with_last(np.ones((1, 2, 1)), step_type, np.array([[-7.0, 3.0]]), np.eye(3)[[[2, 1]]])
    np.testing.assert_array_equal(x, [[[1, -1, 0, 0, 1], [1, 0, 0, 0, 0]]])


def test_a_burn_in_ends_where_the_whole_unroll_passes():
    whole, _ = unroll(PARAMS, (X, ON), random_state(2))
    rest, state = recurrence.burn_in(unroll, PARAMS, (X, ON), random_state(2), 2)
    out, _ = unroll(PARAMS, rest, state)
    assert out.shape[0] == T - 2
    np.testing.assert_allclose(out, whole[2:], rtol=1e-5)
    same, start = recurrence.burn_in(unroll, PARAMS, (X, ON), random_state(2), 0)
    assert same[0] is X
    jax.tree.map(np.testing.assert_array_equal, start, random_state(2))


def test_no_gradient_flows_through_a_burn_in():
    def loss(x):
        rest, state = recurrence.burn_in(unroll, PARAMS, (x, ON), random_state(2), 2)
        return jnp.sum(unroll(PARAMS, rest, state)[0])

    gradient = jax.grad(loss)(X)
    assert not np.any(gradient[:2]) and np.all(np.abs(gradient[2:]).sum(-1) > 0)
