"""The first code in a node's own process under Launchpad. It imports little: some nodes need no JAX or TensorFlow."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import launchpad as lp
from launchpad import address as lp_address
from launchpad.nodes import base

from boonta.nodes.base import Node
from boonta.nodes.tables.reverb.client import connect

PAST_LIVES = "BOONTA_PAST_LIVES"  # Set in a process whose node has died before; its value says how often.


def construct(node: type[Node], **arguments: Any) -> Node:
    """Constructs a node in the process or thread that Launchpad has made for it."""
    made = node(**arguments)
    made.launcher = _launcher
    made.past_lives = int(os.environ.get(PAST_LIVES, "0"))
    return made


class Service:
    """What Launchpad's server offers of a node: the methods that the node's class lists, and no more.

    The server offers all that `dir` names. It also runs the node, by a method that it must not offer.
    """

    def __init__(self, node: Node):
        self.node = node

    def __dir__(self) -> Sequence[str]:
        return self.node.served

    def __getattr__(self, name: str) -> Any:
        if name not in self.node.served:
            raise AttributeError(f"{self.node.name} doesn't serve {name!r}")
        return getattr(self.node, name)

    def run(self) -> None:
        """Runs the node to its end."""
        self.node.run()


def serve(node: type[Node], **arguments: Any) -> Service:
    """Constructs a node that others call; see `construct`."""
    return Service(construct(node, **arguments))


def _launcher() -> tuple[threading.Event, bool]:
    """See `Node.launcher`."""
    owns_process = threading.current_thread() is threading.main_thread()
    if owns_process:  # Ctrl-C reaches all processes; only the launcher handles it, and asks all nodes to stop.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return lp.stop_event(), owns_process


class ReplayHandle(base.Handle):
    """Handle of a replay server; nodes that only write have no signature, so their processes load no TensorFlow."""

    def __init__(self, address: lp_address.Address, signature: Callable[[], Any] | None):
        self._address = address
        self._signature = signature

    def dereference(self) -> Any:
        return connect(self._address.resolve(), self._signature)
