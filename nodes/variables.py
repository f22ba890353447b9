"""The variable server: the newest acting params, as packed bytes with a version; within a process, as device arrays."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors import numpy as safetensors

from boonta.nodes.base import Periodic

Nest = Any


def pack(params: Nest) -> bytes:
    """Packs a pytree of arrays into one bytes object, by leaf path. Never a pickle: whoever reads it runs no code."""
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    return safetensors.save({_name(path): np.ascontiguousarray(leaf) for path, leaf in leaves})


def unpack(packed: bytes, like: Nest) -> Nest:
    """Unpacks into the structure of `like` (arrays or shapes).

    Raises:
      ValueError: a leaf is missing, left over, or of another shape.
    """
    arrays = safetensors.load(packed)
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    names = [_name(path) for path, _ in paths]
    if set(names) != set(arrays):
        raise ValueError(
            f"params don't fit the network: missing {sorted(set(names) - set(arrays))}, "
            f"unknown {sorted(set(arrays) - set(names))}"
        )
    for name, (_, leaf) in zip(names, paths):
        if arrays[name].shape != tuple(leaf.shape):
            raise ValueError(f"params don't fit the network: {name} is {arrays[name].shape}, expected {leaf.shape}")
    return jax.tree_util.tree_unflatten(structure, [arrays[name] for name in names])


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path)


class VariableServer(Periodic):
    """Holds the newest params; the learner puts them, actors get them if theirs are older."""

    role = "variables"
    serves = True

    def __init__(self, name: str, monitor: Any = None):
        super().__init__(name, monitor, every_s=1.0)
        self._version = -1
        self._packed = b""
        self._newest = threading.Lock()

    def put(self, version: int, packed: bytes) -> None:
        """Replaces the params. Versions count learner updates."""
        with self._newest:
            self._version, self._packed = version, packed

    def get(self, have: int) -> tuple[int, bytes]:
        """The newest `(version, packed params)`; no bytes if `have` is that version, or if there is none yet (-1)."""
        with self._newest:
            return self._version, b"" if have == self._version else self._packed


class VariableClient:
    """Keeps an actor's params fresh. Threads of one node may share it.

    Args:
      server: the variable server's handle.
      like: the structure and shapes of the params.
    """

    def __init__(self, server: Any, like: Nest):
        self._server = server
        self._like = like
        self._fetching = threading.Lock()
        self._newest: tuple[int, Nest] = (-1, None)

    def poll(self, timeout_s: float) -> bool | None:
        """Fetches newer params if there are any; sleeps `timeout_s` and returns None while there are none at all."""
        with self._fetching:
            version, packed = self._server.get(self._newest[0])
            if packed:
                self._newest = int(version), jax.device_put(unpack(packed, self._like))
        if self._newest[0] < 0:
            time.sleep(timeout_s)
            return None
        return True

    def snapshot(self) -> tuple[int, Nest]:
        """The version, -1 while there is none, and its params; never waits for another thread's fetching."""
        return self._newest


class DeviceVariables:
    """Takes the variable server's place where actors and learner share a process: params on the devices that act.

    See "Podracer architectures for scalable Reinforcement Learning" (https://arxiv.org/abs/2104.06272): params go from
    the learning devices to the acting ones, never through the host.

    Args:
      devices: that act.
      history: versions before the newest that are kept.
    """

    def __init__(self, devices: Sequence[jax.Device], history: int = 0):
        self.devices = tuple(dict.fromkeys(devices))
        self._history = history
        self._changed = threading.Condition()
        self._copies: dict[int, dict[jax.Device, Nest]] = {}  # by version, oldest first
        self._first: int | None = None

    def put(self, version: int, params: Nest) -> None:
        """Sends params, replicated over the learner's mesh, to each device; the learner may then reuse its own."""
        copies = {}
        for i, device in enumerate(self.devices):
            own = jax.tree.map(lambda leaf, i=i: _replica(leaf, i), params)
            copies[device] = jax.device_put(own, device, may_alias=False)
        with self._changed:
            self._first = version if self._first is None else self._first
            self._copies[version] = copies
            for old in [v for v in self._copies if v < version - self._history]:
                del self._copies[old]
            self._changed.notify_all()

    def get(self, device: jax.Device, updates: int | None, timeout_s: float) -> tuple[int, Nest] | None:
        """Params on a device, with their version; None if they aren't there within `timeout_s`.

        Args:
          device: one of those that act.
          updates: since the first version, after which they were made; None for the newest.
          timeout_s: to wait.

        Raises:
          KeyError: that version is no longer kept.
        """

        def newest() -> int:
            return next(reversed(self._copies), -1)

        def there() -> bool:
            return self._first is not None and newest() >= self._first + (updates or 0)

        with self._changed:
            if not self._changed.wait_for(there, timeout_s):
                return None
            assert self._first is not None
            version = newest() if updates is None else self._first + updates
            return version, self._copies[version][device]


class Colocated(NamedTuple):
    """Given to a node that acts in the variable server's place: params lie on its device.

    Attributes:
      variables: they are there.
      device: the node's.
      lock_step: when a group takes which version; None takes the newest.
    """

    variables: DeviceVariables
    device: jax.Device
    lock_step: LockStep | None = None

    def poll(self, timeout_s: float) -> bool | None:
        """True as soon as there are params, None if there are none within `timeout_s`; as of a `VariableClient`."""
        return None if self.variables.get(self.device, None, timeout_s) is None else True

    def snapshot(self) -> tuple[int, Nest]:
        """The newest version, -1 while there is none, and its params."""
        return self.variables.get(self.device, None, 0.0) or (-1, None)


class LockStep(NamedTuple):
    """Which params act when, so that a run is repeatable: those of `lag` updates before the one that learns from it.

    Attributes:
      lag: updates, at least 0, where each waits for the data of the params before it.
      groups: of environments, whose sequences the learner takes in turn.
      group_size: environments in a group.
      batch_size: sequences in an update; of several hosts, as all here, this one's part.
    """

    lag: int
    groups: int
    group_size: int
    batch_size: int

    def updates(self, group: int, block: int) -> int:
        """Updates after which the params were made that act in a group's sequences number `block`, from 0.

        The first update that learns from them follows those that learn from all that the learner takes before.
        """
        before = (block * self.groups + group % self.groups) * self.group_size // self.batch_size
        return max(0, before - self.lag)


def open_params(variables: Any, like: Nest) -> Any:
    """What keeps a node's params fresh: of a variable server's handle a `VariableClient`; a `Colocated` is one itself.

    Args:
      variables: the handle.
      like: the structure and shapes of the params.
    """
    return variables if isinstance(variables, Colocated) else VariableClient(variables, like)


def publish(variables: Any, version: int, params: Nest) -> None:
    """Hands params to whoever acts: to `DeviceVariables` as they are, to a variable server as bytes."""
    variables.put(version, params if isinstance(variables, DeviceVariables) else pack(jax.device_get(params)))


def _replica(leaf: jax.Array, i: int) -> jax.Array:
    """One device's copy of a replicated array: sent as a whole it would go through the host."""
    shards = leaf.addressable_shards
    return shards[i % len(shards)].data
