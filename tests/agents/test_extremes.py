"""Gradients of the least and the largest numbers of arrays."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boonta.agents.extremes import extreme

X = jnp.array([[[3.0, -1.0], [3.0, 2.0]], [[0.0, 0.0], [0.0, 0.0]], [[5.0, 4.0], [-7.0, 4.0]]])


@pytest.mark.parametrize("reduce", [jnp.min, jnp.max])
@pytest.mark.parametrize("axes", [(1, 2), (-1,)])
def test_it_is_jaxs_own_with_its_gradient_also_where_places_share_it(reduce, axes):
    np.testing.assert_array_equal(extreme(reduce, X, axes), reduce(X, axes, keepdims=True))

    def weighed(found):
        return jnp.sum(found * jnp.arange(1.0, 1 + found.size).reshape(found.shape) + found**2)

    own = jax.jit(jax.grad(lambda x: weighed(extreme(reduce, x, axes))))(X)
    np.testing.assert_array_equal(own, jax.grad(lambda x: weighed(reduce(x, axes, keepdims=True)))(X))


def test_an_extreme_that_no_place_holds_has_no_gradient_rather_than_nan():
    def rounded(x, axes, keepdims):
        return jnp.max(x, axes, keepdims=keepdims) + jnp.array([1e-3, 0.0, 0.0])[:, None, None]

    gradient = jax.grad(lambda x: jnp.sum(extreme(rounded, x, (1, 2))))(X)
    np.testing.assert_allclose(gradient, [np.zeros((2, 2)), np.full((2, 2), 0.25), [[1.0, 0.0], [0.0, 0.0]]])
    _, tangent = jax.jvp(lambda x: extreme(rounded, x, (1, 2))[:, 0, 0], (X,), (jnp.ones_like(X),))
    assert tangent.tolist() == [0.0, 1.0, 1.0]  # Forwards, too.
