"""Running moments, by which observations and returns are normalised; they are `Statistics` of an update.

A loss returns the moments of its batch. The update merges them into those of all data so far, and publishes them with
the params, so that the policy normalises as the loss does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from boonta.agents.base import Nest

LIMIT = 10.0  # Standard deviations from the mean; what is farther away counts as this far.


class Moments(NamedTuple):
    """Mean and variance of numbers seen so far.

    Attributes:
      rows: float32 [], the number of rows.
      mean: nest [...], the mean of each number of a row.
      variance: nest [...], its variance.
    """

    rows: jax.Array
    mean: Nest
    variance: Nest


def no_moments(row: Nest) -> Moments:
    """The moments of no rows.

    Args:
      row: nest of arrays or specs with the shapes of one row.
    """
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.float32), row)
    return Moments(jnp.zeros(()), zeros, jax.tree.map(jnp.ones_like, zeros))


def moments_of(x: Nest) -> Moments:
    """The moments of a batch, a nest [T, B, ...]; those of no rows if it has no leaf."""
    rows = sum(leaf.shape[0] * leaf.shape[1] for leaf in jax.tree.leaves(x)[:1])
    mean = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=(0, 1)), x)
    return Moments(jnp.float32(rows), mean, jax.tree.map(lambda leaf: jnp.var(leaf, axis=(0, 1)), x))


def merge_moments(a: Moments, b: Moments) -> Moments:
    """The moments of the rows of `a` and `b` together.

    See "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances"
    (http://i.stanford.edu/pub/cstr/reports/cs/tr/79/773/CS-TR-79-773.pdf), Eq. 2.1.
    """
    rows = a.rows + b.rows
    share = b.rows / jnp.maximum(rows, 1)
    means = jax.tree.map(lambda m, n: m + share * (n - m), a.mean, b.mean)

    def variance(v: jax.Array, w: jax.Array, m: jax.Array, n: jax.Array) -> jax.Array:
        merged = (1 - share) * v + share * w + share * (1 - share) * (n - m) ** 2
        return jnp.where(rows > 0, merged, v)

    return Moments(rows, means, jax.tree.map(variance, a.variance, b.variance, a.mean, b.mean))


def is_real(x: Any) -> bool:
    """Whether an array, or a spec, is of real numbers."""
    return jnp.issubdtype(x.dtype, jnp.floating)


def reals(nest: Nest) -> list[Any]:
    """The leaves of real numbers, which alone have moments to be normalised by."""
    return list(filter(is_real, jax.tree.leaves(nest)))


def normalise(x: Nest, moments: Moments) -> Nest:
    """Shifts and scales x, a nest [..., *row], to mean 0 and variance 1, cut at `LIMIT`."""

    def leaf(x: jax.Array, mean: jax.Array, variance: jax.Array) -> jax.Array:
        return jnp.clip((x - mean) / jnp.sqrt(variance + 1e-8), -LIMIT, LIMIT)

    return jax.tree.map(leaf, x, moments.mean, moments.variance)
