"""The variable server: the newest acting params, as packed bytes with a version."""

from __future__ import annotations

import threading
import time
from typing import Any

import jax
import numpy as np
from safetensors import numpy as safetensors

from nodes.base import Periodic

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
