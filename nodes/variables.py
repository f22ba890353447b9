"""The newest acting params and their version: as bytes in a variable server, or as device arrays within a process."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Sequence
from concurrent import futures
from typing import NamedTuple

import jax
import numpy as np
import safetensors.numpy

from boonta.agents.base import Nest
from boonta.nodes.acting.base import ParamsHandle, VariablesHandle
from boonta.nodes.acting.lock_step import LockStep
from boonta.nodes.periodic import Periodic
from boonta.nodes.watch.calls import answered, in_thread, polled
from boonta.nodes.watch.reporter import MonitorHandle

LOOK_S = 0.5  # Time for which a server that fetches from the first one waits there for newer params.
EMPTY = "waiting for params of the first variable server"  # What it does until it has fetched any.


def pack(params: Nest) -> bytes:
    """Packs a pytree of arrays into bytes, by leaf path. The format is not pickle, so unpacking can't run code."""
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    return safetensors.numpy.save({jax.tree_util.keystr(path): np.asarray(leaf, order="C") for path, leaf in leaves})


def unpack(packed: bytes, like: Nest) -> Nest:
    """Unpacks params into the structure of `like`, whose leaves are arrays or shapes.

    Raises:
      ValueError: the bytes are damaged; or a leaf is missing, unknown, or of another dtype or shape.
    """
    try:
        tensors = dict(safetensors.deserialize(packed))
    except safetensors.SafetensorError as error:
        raise ValueError(f"params are damaged: {error}") from error
    paths, structure = jax.tree_util.tree_flatten_with_path(like)
    leaves = {jax.tree_util.keystr(path): leaf for path, leaf in paths}
    if leaves.keys() != tensors.keys():
        raise ValueError(
            f"params don't fit the network: missing {sorted(leaves.keys() - tensors.keys())}, "
            f"unknown {sorted(tensors.keys() - leaves.keys())}"
        )
    for name, leaf in leaves.items():
        found = f"{tensors[name]['dtype']} {tuple(tensors[name]['shape'])}"
        expected = f"{_dtype(np.dtype(leaf.dtype))} {tuple(leaf.shape)}"
        if found != expected:
            raise ValueError(f"params don't fit the network: {name} is {found}, expected {expected}")
    arrays = [np.frombuffer(tensors[name]["data"], leaf.dtype).reshape(leaf.shape) for name, leaf in leaves.items()]
    return jax.tree_util.tree_unflatten(structure, arrays)


@functools.cache
def _dtype(dtype: np.dtype) -> str:
    """The name that safetensors has for a dtype, such as F32."""
    ((_, tensor),) = safetensors.deserialize(safetensors.numpy.save({"": np.empty(0, dtype)}))
    return tensor["dtype"]


class VariableServer(Periodic):
    """Holds the newest params: the learner puts them, and actors get them if their own are older.

    Of several servers, the learner puts them into the first, from which the others fetch. So a publication costs the
    learner's thread the same however many there are, and doesn't wait for those that are away.

    Args:
      name: the name of this node.
      monitor: handle of the monitor.
      source: two handles of the server to fetch from: one soon gives up, and waits for newer params; the other one has
        time enough to transfer them. None for the first server.
    """

    role = "variables"
    end_order = 3
    saves = False
    methods = ("put", "get", "newest")
    away_s = 5.0  # Params may take longer over a slow network, but nobody who is asked to stop waits for a dead server.

    def __init__(
        self, name: str, monitor: MonitorHandle | None = None, *, source: Sequence[VariablesHandle] | None = None
    ):
        super().__init__(name, monitor, every_s=1.0 if source is None else None)
        self.end_order = 3 if source is None else 2
        self._source = source
        self._version = -1
        self._packed = b""
        self._changed = threading.Condition()  # Its lock guards the two above.

    def round(self) -> None:
        if self._source is None:
            return
        asking, fetching = self._source
        with self.stopwatch("resting" if self._packed else EMPTY):
            newest = answered(asking.newest, self._version, LOOK_S)
        if newest is None or newest in (-1, self._version):
            return
        with self.stopwatch("fetching params"):
            fetched = answered(fetching.get, self._version)
        if fetched is None:
            self.warn(f"{self.name} stays behind: the first variable server didn't send its newest params in time")
        elif fetched[1]:
            self.put(*fetched)

    def put(self, version: int, packed: bytes) -> None:
        """Replaces the params; the version is the learner's number of updates."""
        with self._changed:
            self._version, self._packed = version, packed
            self._changed.notify_all()

    def newest(self, have: int, wait_s: float) -> int:
        """Returns the newest version, -1 before the first params; waits up to `wait_s` for another one than `have`."""
        with self._changed:
            self._changed.wait_for(lambda: self._packed and self._version != have, wait_s)
            return self._version

    def get(self, have: int) -> tuple[int, bytes]:
        """Returns the newest version (-1 if none) and its packed params; no bytes if `have` is that version."""
        with self._changed:
            return self._version, b"" if have == self._version else self._packed


class VariableClient:
    """Fetches newer params from the variable server; the threads of a node may share it.

    Once the server hasn't answered, a thread beside asks it again, so that nobody who has params waits for it.

    Args:
      server: handle of the variable server.
      like: the structure and shapes of the params.

    Attributes:
      newest: the newest version fetched so far (-1 if none) and its params, which can be read during a fetch.
    """

    def __init__(self, server: VariablesHandle, like: Nest):
        self._server = server
        self._like = like
        self.newest: tuple[int, Nest] = (-1, None)
        self._fetching = threading.Lock()  # It guards the two below, and lets one thread fetch at a time.
        self._away = False
        self._beside: futures.Future[bool] | None = None  # The fetch in a thread beside.

    def fetch(self, timeout_s: float) -> tuple[int, Nest] | None:
        """Returns the newest version and its params; if there are none at all yet, sleeps `timeout_s` and returns None.

        The newest fetched so far stay while the server is away, or has been started again and has none yet.

        Raises:
          ValueError: what the server has doesn't fit the network.
        """
        with self._fetching:
            if self._beside is None or polled(self._beside, 0.0):
                self._beside = None
                if self._away and self.newest[0] >= 0:
                    self._beside = in_thread(self._get)
                else:
                    self._get()
        newest = self.newest
        if newest[0] < 0:
            time.sleep(timeout_s)
            return None
        return newest

    def _get(self) -> None:
        answer = answered(self._server.get, self.newest[0])
        self._away = answer is None
        if answer is not None and answer[1]:
            self.newest = int(answer[0]), jax.device_put(unpack(answer[1], self._like))


class DeviceVariables:
    """Replaces the variable server where actors and learner share a process: keeps params on the acting devices.

    Params go from the learning devices directly to the acting ones, never through the host. See "Podracer
    architectures for scalable Reinforcement Learning" (https://arxiv.org/abs/2104.06272).

    Args:
      devices: the acting devices.
      history: number of versions kept besides the newest.
    """

    def __init__(self, devices: Sequence[jax.Device], history: int = 0):
        self.devices = tuple(dict.fromkeys(devices))
        self._history = history
        self._changed = threading.Condition()
        self._copies: dict[int, dict[jax.Device, Nest]] = {}  # Copies by version, oldest first.
        self._first: int | None = None

    def put(self, version: int, params: Nest) -> None:
        """Copies params, replicated over the learner's mesh, to each device; the learner may then donate its own."""
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
        """Returns a version and its params on a device; None if it isn't there within `timeout_s`.

        Args:
          device: one of the acting devices.
          updates: the version, as a number of updates after the first one; None for the newest.
          timeout_s: how long to wait for it.

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
    """Replaces the handle of the variable server for a node whose params are already on its device.

    Attributes:
      variables: holds the params.
      device: the node's acting device.
      lock_step: decides which version a group uses; None for always the newest.
    """

    variables: DeviceVariables
    device: jax.Device
    lock_step: LockStep | None = None

    def fetch(self, timeout_s: float) -> tuple[int, Nest] | None:
        """Returns the newest version and its params, or None if there are none within `timeout_s`."""
        return self.variables.get(self.device, None, timeout_s)


def open_params(variables: ParamsHandle, like: Nest) -> VariableClient | Colocated:
    """Returns the object from which a node fetches params: a `VariableClient`, or the `Colocated` handle itself.

    Args:
      variables: handle of the variable server, or `Colocated`.
      like: the structure and shapes of the params.
    """
    return variables if isinstance(variables, Colocated) else VariableClient(variables, like)


def _replica(leaf: jax.Array, i: int) -> jax.Array:
    """Returns one device's copy of a replicated array; `device_put` of the whole array would go through the host."""
    shards = leaf.addressable_shards
    return shards[i % len(shards)].data
