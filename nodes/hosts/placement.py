"""Sebulba: actors and learner as threads of one process, its devices split between acting and learning.

See "Podracer architectures for scalable Reinforcement Learning" (https://arxiv.org/abs/2104.06272), "Decomposed Actors
and Learners with Sebulba" and Figure 3. Sebulba is placement: the nodes are those of a cluster. Only the division of
devices differs, and that time steps go to the acting device at once, where trajectories accumulate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from boonta.agents.base import Batch, Steps
from boonta.envs.base import BatchedEnv, Env, EnvSpec, TimeStep
from boonta.envs.step_check import StepCheck
from boonta.envs.wrapped import WrappedEnv


@dataclasses.dataclass(frozen=True)
class Placement:
    """The division of a host's devices, threads and environments.

    Attributes:
      acting: A, the number of acting devices, the last ones of the process. A single device acts and learns.
      learning: L, the number of learning devices, the first ones; None for all others. In a fused program all devices
        do both; this is their number, and None takes all.
      threads: threads per acting device; they alternate, so that the device is busy while environments step. An actor's
        environments are divided among them.
      lag: number of updates between the params that act and the update that learns from their data, kept exactly
        (lock-step), so that the same seed gives the same run. None acts with the newest params, which is faster.
      replay: where sequences to replay are kept: on the first learning device ("device"), or in this machine's memory
        ("host"). "auto" keeps them on an accelerator where full tables take at most half of its free memory. A fused
        program always keeps them on its devices.
    """

    acting: int = 1
    learning: int | None = None
    threads: int = 2
    lag: int | None = None
    replay: Literal["auto", "device", "host"] = "auto"

    def __post_init__(self) -> None:
        for field in ("acting", "learning", "threads"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ValueError(f"placement.{field} is {value}; it must be at least 1")
        if self.lag is not None and self.lag < 0:
            raise ValueError(f"placement.lag is {self.lag}; it must be at least 0, or none to run freely")

    @property
    def groups(self) -> int:
        """Groups of environments, over all acting devices."""
        return self.acting * self.threads


def split(placement: Placement, present: Sequence[jax.Device]) -> tuple[Sequence[jax.Device], Sequence[jax.Device]]:
    """Splits the devices; returns the acting ones and the learning ones.

    Args:
      placement: the number of each.
      present: the devices of this process.

    Raises:
      ValueError: the process has too few devices.
    """
    acting, count = placement.acting, len(present)
    learning = max(1, count - acting) if placement.learning is None else placement.learning
    if count == acting == learning == 1:
        return present, present
    if acting + learning > count:
        raise ValueError(
            f"placement.acting is {acting} and placement.learning {learning}; this process has {count} "
            f"{present[0].platform} devices"
        )
    return present[learning : learning + acting], present[:learning]


@dataclasses.dataclass(frozen=True)
class Placed:
    """An environment that sends each time step to a device once; the policy acts on it and the queue keeps it there.

    Attributes:
      env: makes the environments, which step on the host.
      device: the acting device.
    """

    env: Env
    device: jax.Device

    @property
    def spec(self) -> EnvSpec:
        return self.env.spec

    def __call__(self, num_envs: int, seed: int) -> BatchedEnv:
        return _PlacedBatch(self.env(num_envs, seed), self.device)


class _PlacedBatch(WrappedEnv):
    """See `Placed`."""

    def __init__(self, env: BatchedEnv, device: jax.Device):
        super().__init__(env)
        self._device = device
        self._checked = StepCheck(env.spec, env.num_envs)

    def reset(self) -> TimeStep:
        return jax.device_put(self._checked(self.env.reset()), self._device)

    def step(self, action: np.ndarray) -> TimeStep:
        return jax.device_put(self._checked(self.env.step(action)), self._device)


def make_mesh(devices: int | None, batch_size: int) -> Mesh:
    """A one-axis mesh, "batch", over the first devices of this process, and of the other processes if there are any.

    Raises:
      ValueError: there are fewer devices, or the batch doesn't divide over them.
    """
    present, processes = jax.local_devices(), jax.process_count()
    count = len(present) if devices is None else devices
    if not 1 <= count <= len(present):
        raise ValueError(f"learner devices is {count}; this process has {len(present)} {present[0].platform} devices")
    if batch_size % (count * processes):
        over = f"{count} learner devices" + (f" on each of {processes} hosts" if processes > 1 else "")
        raise ValueError(f"batch_size is {batch_size}; it must divide over {over}")
    chosen = [[device for device in jax.devices() if device.process_index == i][:count] for i in range(processes)]
    return Mesh(np.array(chosen).flatten(), ("batch",))


def batch_sharding(mesh: Mesh) -> Batch:
    """The shardings of a batch whose sequences are split over a mesh; its steps are [T, B, ...]."""
    columns, slots = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((None, "batch"), ("batch",)))
    return Batch(Steps(*[columns] * len(Steps._fields)), slots)
