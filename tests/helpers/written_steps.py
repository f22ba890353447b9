"""Steps that know their slot and time, as actors write them, and the shardings with which they are read."""

from __future__ import annotations

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from boonta.agents.base import Batch, Steps
from boonta.envs.catch import Catch
from boonta.nodes.acting.local import step_shapes
from boonta.tests.helpers import tiny

SIGNATURE = step_shapes(tiny.make(Catch().spec), Catch().spec)


def steps(t: int, num_envs: int) -> Steps:
    """Step t of every slot; the reward encodes the step and the slot."""

    def of(value, dtype):
        return np.full(num_envs, value, dtype)

    observation = np.full((num_envs, 10, 5), t, np.float32)
    reward = 100.0 * np.arange(num_envs, dtype=np.float32) + t
    return Steps(observation, of(1, np.int32), reward, of(1, np.float32), of(0, np.int32), {}, of(t, np.int32))


def one_device() -> Batch:
    mesh = Mesh(np.array(jax.devices()[:1]), ("batch",))
    return Batch(
        Steps(*[NamedSharding(mesh, PartitionSpec(None, "batch"))] * 7), NamedSharding(mesh, PartitionSpec("batch"))
    )
