"""The least and the largest numbers of arrays, with gradients that are always finite."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

Reduce = Callable[..., jax.Array]  # jnp.min or jnp.max.


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 2))
def extreme(reduce: Reduce, x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """The least or the largest numbers along some axes, which stay as axes of length 1.

    Places that hold the extreme share its gradient equally, as in JAX's own rule. That divides by the number of such
    places. XLA may compute `x` twice, with different rounding; then no place holds the extreme, and 0 / 0 makes all
    params NaN (seen with JAX 0.12 on CPU). Here such an extreme has no gradient.
    """
    return reduce(x, axes, keepdims=True)


@extreme.defjvp
def _extreme_jvp(
    reduce: Reduce, axes: tuple[int, ...], primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (x,), (tangent,) = primals, tangents
    found = extreme(reduce, x, axes)
    holds = x == found
    places = jnp.maximum(jnp.sum(holds, axes, keepdims=True), 1)
    return found, jnp.sum(jnp.where(holds, tangent, 0), axes, keepdims=True) / places
