"""Importance weights and N-step transitions by hand; V-trace is in test_impala_loss.py."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.base import Steps
from boonta.agents.groups import Replay
from boonta.agents.returns import importance_weights, n_step, value_targets
from boonta.envs.base import FIRST, LAST, MID


def test_importance_weights_by_hand():
    replay = Replay(importance_exponent=0.5, importance_anneal_updates=100)
    probability = jnp.array([0.1, 0.4])
    weights, beta = importance_weights(probability, jnp.int32(0), replay)
    np.testing.assert_allclose(weights, [1, 0.5], rtol=1e-5)
    weights, beta = importance_weights(probability, jnp.int32(50), replay)
    assert float(beta) == 0.75
    weights, beta = importance_weights(probability, jnp.int32(1000), replay)
    np.testing.assert_allclose(weights, [1, 0.25], rtol=1e-5)


def stream(step_type, discount):
    """Steps of one slot, whose rewards are 1, 10, 100, …"""
    column = lambda x, dtype: np.asarray(x, dtype)[:, None]  # noqa: E731
    kind, reward = column(step_type, np.int32), column(10.0 ** np.arange(len(step_type)), np.float32)
    return Steps((), kind, np.where(kind == FIRST, 0, reward), column(discount, np.float32), kind, (), kind)


@pytest.mark.parametrize(
    ("last", "reward", "discount", "row"),
    [
        (None, [10 + 50 + 250, 100 + 500 + 2500], [1 / 8, 1 / 8], [3, 4]),
        (0.0, [10 + 50, 100], [0, 0], [2, 2]),  # A termination: no value counts.
        (1.0, [10 + 50, 100], [1 / 4, 1 / 2], [2, 2]),  # A truncation: the value of LAST counts.
    ],
    ids=["goes on", "terminates", "is truncated"],
)
def test_n_steps_by_hand(last, reward, discount, row):
    kinds = [MID] * 5 if last is None else [MID, MID, LAST, FIRST, MID]
    steps = stream(kinds, [1, 1, 1 if last is None else last, 1, 1])
    found = n_step(steps, 0.5, 3)
    np.testing.assert_allclose(found.reward_t[:, 0], reward)
    np.testing.assert_allclose(found.discount_t[:, 0], discount)
    assert found.row_t[:, 0].tolist() == row


def test_n_steps_with_their_bootstrap_are_the_n_step_returns():
    rng = np.random.default_rng(0)
    kinds = np.full((12, 50), MID, np.int32)
    for t in range(1, 12):
        kinds[t] = np.where(kinds[t - 1] == LAST, FIRST, np.where(rng.random(50) < 0.3, LAST, MID))
    discount = np.where((kinds == LAST) & (rng.random((12, 50)) < 0.5), 0, 1).astype(np.float32)
    reward = np.where(kinds == FIRST, 0, rng.normal(size=(12, 50))).astype(np.float32)
    steps = Steps((), kinds, reward, discount, kinds, (), kinds)
    value = rng.normal(size=(12, 50)).astype(np.float32)
    for n in (1, 4):
        found = n_step(steps, 0.9, n)
        ours = found.reward_t + found.discount_t * np.take_along_axis(value, np.asarray(found.row_t), axis=0)
        theirs = value_targets(steps, value, 0.9, n, 1.0)[: 12 - n]
        counts = kinds[: 12 - n] != LAST  # What starts at LAST is no transition.
        np.testing.assert_allclose(ours[counts], theirs[counts], rtol=1e-4, atol=1e-5)
