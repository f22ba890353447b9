"""A learner's state as arrays of the host, which a snapshot holds, and back on the devices, bit by bit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from boonta.agents.base import Nest
from boonta.nodes.hosts.arrays import whole


def copy(nest: Nest) -> Nest:
    """A copy of a nest in this host's memory, once it is computed; it takes no memory of the devices.

    A copy on the devices would let them go on meanwhile, but a replay table may fill more than half of their memory.
    What is split over several hosts is an exception, of which each device has a whole leaf for a moment; all hosts must
    make such a copy together.
    """
    return jax.tree.map(_on_host, nest)


def to_host(nest: Nest) -> Nest:
    """A copy as of `copy`, of nothing but plain numbers: keys as their data, and () for what has no elements."""
    return jax.tree.map(lambda leaf: _on_host(_numbers(leaf)) if leaf.size else (), nest)


def host_shapes(shapes: Nest) -> Nest:
    """The shapes that `to_host` gives a nest of these, with their shardings."""

    def shape(leaf: Any) -> Any:
        numbers = jax.eval_shape(_numbers, leaf)
        return jax.ShapeDtypeStruct(numbers.shape, numbers.dtype, sharding=leaf.sharding) if leaf.size else ()

    return jax.tree.map(shape, shapes)


def from_host(nest: Nest, shapes: Nest) -> Nest:
    """The inverse of `to_host`, for arrays that have been placed with the shardings of `host_shapes`."""
    leaves = iter(jax.tree.leaves(nest))

    def restore(like: Any) -> jax.Array:
        if not like.size:
            return jax.jit(lambda: jnp.zeros(like.shape, like.dtype), out_shardings=like.sharding)()
        leaf = next(leaves)
        if not _is_key(like):
            return leaf
        return jax.random.wrap_key_data(leaf, impl=jax.random.key_impl(jnp.empty((), like.dtype)))

    return jax.tree.map(restore, shapes)


def _on_host(leaf: Any) -> np.ndarray:
    if isinstance(leaf, jax.Array) and not (leaf.is_fully_addressable or leaf.is_fully_replicated):
        assert isinstance(leaf.sharding, NamedSharding)
        leaf = whole(leaf.sharding.mesh)(leaf)
    return np.array(leaf)


def _numbers(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _is_key(leaf: Any) -> bool:
    """Whether an array is of keys of a type of their own, whose implementation isn't part of their numbers."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
