"""What an inference node keeps of its callers: their groups of environments, their requests, and who waits for whom.

Glossary of shapes: B slots of a group.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from boonta.agents.base import Nest

LATELY_S = 10.0  # Time since its last request after which no batch waits for a group: its actor may have left.


class Lane:
    """One of the node's devices, with the groups that it acts for.

    Attributes:
      device: the device; the states of its groups are there.
      groups: its groups, by name.
      waiting: the requests that no batch has taken yet, oldest first.
      compiled: the sizes of batches, in groups and slots of a group, that it has acted for.

    Args:
      max_batch: the most environment slots in a batch.
    """

    def __init__(self, device: jax.Device, max_batch: int):
        self.device = device
        self._max_batch = max_batch
        self.groups: dict[str, SlotGroup] = {}
        self.waiting: list[Request] = []
        self.compiled: set[tuple[int, int]] = set()
        self._params: tuple[int, Nest] = (-1, None)

    @property
    def slots(self) -> int:
        """The number of environment slots of its groups that have lately asked."""
        return sum(group.num_envs for group in self.groups.values() if group.asks)

    def add(self, name: str, group: SlotGroup) -> None:
        """Adds a group; its state goes to the device."""
        group.state = jax.device_put(group.state, self.device)
        self.groups[name] = group

    def drop(self, name: str) -> None:
        """Forgets a group and its request."""
        group = self.groups.pop(name)
        self.waiting = [request for request in self.waiting if request.group is not group]

    def is_complete(self) -> bool:
        """Whether no further request can join the batch of the oldest one, if there still is one."""
        if not self.waiting:
            return True
        alike = [group for group in self.groups.values() if group.num_envs == self.waiting[0].group.num_envs]
        slots = sum(group.num_envs for group in alike if group.waits)
        return slots >= self._max_batch or all(group.waits or not group.asks for group in alike)

    def take(self) -> list[Request]:
        """Takes the oldest request and as many others of its size as fit."""
        size = self.waiting[0].group.num_envs if self.waiting else 1
        batch = [request for request in self.waiting if request.group.num_envs == size][: self._max_batch // size]
        self.waiting = [request for request in self.waiting if request not in batch]
        return batch

    def params(self, newest: tuple[int, Nest]) -> tuple[int, Nest]:
        """A version and its params, which come to the device once; only the lane's own thread calls this."""
        if newest[0] != self._params[0]:
            self._params = newest[0], jax.device_put(newest[1], self.device)
        return self._params


@dataclasses.dataclass
class SlotGroup:
    """Environments of an actor or a reanalyzer that step together.

    Attributes:
      num_envs: B.
      seed: seed of the policy.
      state: the policy's state, leaves [B, ...], on the device.
      t: number of the step that it must request next.
      request: its last request.
      asked_at: the time of its last call, by the monotonic clock.
    """

    num_envs: int
    seed: int
    state: Nest
    t: int = 0
    request: Request | None = None
    asked_at: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def asks(self) -> bool:
        """Whether it has lately asked, so that its next request will come."""
        return self.asked_at >= time.monotonic() - LATELY_S

    @property
    def waits(self) -> bool:
        """Whether its last request has no answer yet."""
        return self.request is not None and not self.request.answered.is_set()


class Request:
    """A request for the actions of a group in step t, and its answer.

    Args:
      group: the group.
      t: the step's number.
      leaves: the leaves of its `TimeStep`, [B, ...].
      executed: the action [B, ...] that the environments took in step t - 1, if it wasn't the answer.
    """

    def __init__(self, group: SlotGroup, t: int, leaves: Sequence[np.ndarray], executed: np.ndarray | None):
        self.group, self.t, self.leaves, self.executed = group, t, leaves, executed
        self.received_at = time.monotonic()
        self.answered = threading.Event()
        self.answer: list[Any] = []
