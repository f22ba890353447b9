"""Running moments, by which observations and returns are normalised; they are `Statistics` of an update.

Of observations, real numbers and pixels have moments, each place of a frame its own; other leaves, such as legal
actions or a discrete space, stay as they are. What all frames share is then 0, and what changes seldom is large.

A loss returns the moments of its batch. The update merges them into those of all data so far, and publishes them with
the params, so that the policy normalises as the loss does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from boonta.agents.base import Batch, Nest
from boonta.agents.optimisation import AgentLoss, Context, Outcome, Statistics
from boonta.agents.views import view_of
from boonta.envs.base import EnvSpec

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
    """The moments of no rows: they leave numbers as they are, and scale pixels to [0, 1].

    Args:
      row: nest of arrays or specs with the shapes of one row.
    """
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, jnp.float32), row)
    largest = jax.tree.map(lambda x: jnp.full(x.shape, 255.0 if is_pixels(x) else 1.0, jnp.float32), row)
    return Moments(jnp.zeros(()), zeros, jax.tree.map(jnp.square, largest))


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


def is_pixels(x: Any) -> bool:
    """Whether an array, or a spec, is of uint8, which only images have."""
    return x.dtype == np.uint8


def is_measured(x: Any) -> bool:
    """Whether an array, or a spec, is of numbers that have moments."""
    return is_pixels(x) or jnp.issubdtype(x.dtype, jnp.floating)


def measured(nest: Nest) -> list[Any]:
    """The leaves that have moments to be normalised by."""
    return list(filter(is_measured, jax.tree.leaves(nest)))


def normalise(x: Nest, moments: Moments) -> Nest:
    """Shifts and scales x, a nest [..., *row], to mean 0 and variance 1, cut at `LIMIT`; float32."""

    def leaf(x: jax.Array, mean: jax.Array, variance: jax.Array) -> jax.Array:
        return jnp.clip((x - mean) / jnp.sqrt(variance + 1e-8), -LIMIT, LIMIT)

    return jax.tree.map(leaf, x, moments.mean, moments.variance)


def normalise_stack(stack: Nest, moments: Moments) -> Nest:
    """Normalises stacked frames, a nest [..., L], by moments of the leaves of single frames that are `measured`.

    Black pictures, such as stacks have before an episode begins, become 0, the mean picture: they would be far from it
    in every pixel, and hide the others.
    """
    normal = iter(map(_normalise_leaf, measured(stack), moments.mean, moments.variance))
    return jax.tree.map(lambda x: next(normal) if is_measured(x) else x, stack)


def _normalise_leaf(x: jax.Array, mean: jax.Array, variance: jax.Array) -> jax.Array:
    """Normalises one leaf [..., *frame, L], see `normalise_stack`."""
    shifted = normalise(x, Moments(jnp.float32(1), mean[..., None], variance[..., None]))
    axes = tuple(range(-mean.ndim - 1, -1))  # Those of the frame.
    return shifted * jnp.any(x > 0, axis=axes, keepdims=True) if is_pixels(x) else shifted


def no_moments_of(spec: EnvSpec) -> Moments:
    """The moments of no frames: of the leaves that are `measured` of what networks see of a frame."""
    return no_moments(measured(view_of(spec.observations)))


def moments_seen(batch: Batch) -> Moments:
    """The moments of the frames of a batch, leaf by leaf as in `no_moments_of`."""
    return moments_of(measured(view_of(batch.steps.observation)))


def observation_statistics(spec: EnvSpec) -> Statistics:
    """The moments of frames over the rows of all batches so far."""
    return Statistics(lambda: no_moments_of(spec), merge_moments)


def with_moments(loss: AgentLoss) -> AgentLoss:
    """The loss of a network that takes `(params, moments)`: of params alone, with the moments that the context has.

    Target params have them beside them, too. The batch's own moments become its statistics.
    """

    def measuring(params: Nest, context: Context, batch: Batch, **parts: Any) -> tuple[Any, Outcome]:
        moments = context.statistics
        context = context._replace(target_params=(context.target_params, moments))
        value, outcome = loss((params, moments), context, batch, **parts)
        return value, outcome._replace(statistics=moments_seen(batch))

    return measuring
