"""Importance weights by hand; V-trace is in test_impala_loss.py, N-step returns in test_n_step.py."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from boonta.agents.groups import Replay
from boonta.agents.returns import importance_weights


def test_importance_weights_by_hand():
    replay = Replay(importance_exponent=0.5, importance_anneal_updates=100)
    probability, learns = jnp.array([0.1, 0.4]), jnp.array([True, True])
    weights, beta = importance_weights(probability, learns, jnp.int32(0), replay)
    np.testing.assert_allclose(weights, [1, 0.5], rtol=1e-5)
    weights, beta = importance_weights(probability, learns, jnp.int32(50), replay)
    assert float(beta) == 0.75
    weights, beta = importance_weights(probability, learns, jnp.int32(1000), replay)
    np.testing.assert_allclose(weights, [1, 0.25], rtol=1e-5)
    kept = Replay(importance_exponent=0.5, importance_anneal_updates=None)
    weights, beta = importance_weights(probability, learns, jnp.int32(1000), kept)
    assert float(beta) == 0.5
    np.testing.assert_allclose(weights, [1, 0.5], rtol=1e-5)


def test_a_sequence_that_nothing_is_learned_from_sets_no_weight():
    replay = Replay(importance_exponent=1.0, importance_anneal_updates=None)
    weights, _ = importance_weights(jnp.array([0.001, 0.5, 1.0]), jnp.array([False, True, True]), jnp.int32(0), replay)
    np.testing.assert_allclose(weights, [1, 1, 0.5], rtol=1e-5)
    weights, _ = importance_weights(jnp.array([0.001, 0.5]), jnp.array([False, False]), jnp.int32(0), replay)
    np.testing.assert_allclose(weights, [1, 1])
