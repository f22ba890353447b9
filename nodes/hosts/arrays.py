"""Arrays of all hosts, of which each host holds a part."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from boonta.agents.base import Nest


def place(nest: Nest, sharding: Any) -> Nest:
    """Puts this host's part of arrays of all hosts on its devices.

    Args:
      nest: leaves of numbers, on this host or on one of its devices.
      sharding: the sharding of the whole arrays, one for all leaves or a prefix nest.
    """
    if jax.process_count() == 1:
        return jax.device_put(nest, sharding)
    return jax.tree.map(lambda sharding, part: jax.tree.map(functools.partial(_part, sharding), part), sharding, nest)


def _part(sharding: NamedSharding, leaf: Any) -> jax.Array:
    """The whole array, of which `leaf` is this host's part. What is on a device doesn't come back from it."""
    if not isinstance(leaf, jax.Array):
        return jax.make_array_from_process_local_data(sharding, np.asarray(leaf))
    devices = sharding.mesh.local_devices
    own = NamedSharding(Mesh(np.array(devices), sharding.mesh.axis_names), sharding.spec)
    shards = {shard.device: shard.data for shard in jax.device_put(leaf, own).addressable_shards}
    hosts = [1 if axis is None else jax.process_count() for axis in sharding.spec]
    shape = tuple(size * number for size, number in itertools.zip_longest(leaf.shape, hosts, fillvalue=1))
    return jax.make_array_from_single_device_arrays(shape, sharding, [shards[device] for device in devices])


def own(leaves: np.ndarray) -> np.ndarray:
    """This host's part of an array [B, ...] of all hosts: the inverse of `place`."""
    return np.split(leaves, jax.process_count())[jax.process_index()]


@functools.cache
def whole(mesh: Mesh) -> Callable[[Nest], Nest]:
    """A compiled function that gives each device of a mesh the whole of arrays that are split over it."""
    return jax.jit(lambda nest: nest, out_shardings=NamedSharding(mesh, PartitionSpec()))
