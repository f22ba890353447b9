"""The first code in a node's own process under Launchpad. It imports little: some nodes need no JAX."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import launchpad as lp
from launchpad import address as lp_address
from launchpad import context
from launchpad.launch import worker_manager
from launchpad.nodes import base

from boonta.nodes.base import Node
from boonta.nodes.rpc.server import Server
from boonta.nodes.tables.reverb.store import joined
from boonta.nodes.watch.stopwatch import process_age
from boonta.programs.wiring.machine import memory
from boonta.programs.wiring.supervision import dependent, stacks

PAST_LIVES = "BOONTA_PAST_LIVES"  # The variable with the number of times that the process's node has died.


class ProcessNode(lp.PyClassNode):
    """A node whose process ends with the launcher's, and has environment variables of its own.

    Launchpad leaves processes alone when their launcher is killed, and has variables for a whole group only.

    The process imports this module to find the class.

    Attributes:
      environment: the variables, by name.
      held: the path of the file that the process holds until it has ended; empty for none.
    """

    environment: Mapping[str, str] = {}
    held = ""

    @staticmethod
    def to_executables(nodes: Sequence[ProcessNode], label: str, launch_context: context.LaunchContext) -> list[Any]:
        made = lp.PyClassNode.to_executables(nodes, label, launch_context)
        if launch_context.launch_type is context.LaunchType.LOCAL_MULTI_PROCESSING:  # Of threads, functions are made.
            for node, command in zip(nodes, made):
                command.env_overrides.update(node.environment)
                command.command_as_list = dependent.command(*command.command_as_list, held=node.held)
        return made


class ReplayHandles(NamedTuple):
    """A node's handles of several replay servers, which Launchpad replaces by their stores.

    Attributes:
      handles: the handles, or the stores.
      first: the number of the node's first group of slots among those of all nodes of its group.
    """

    handles: list[Any]
    first: int


class Meeting(NamedTuple):
    """Where one of several learners meets the others.

    Attributes:
      coordinator: the address of the first one, once the launcher has bound it; for the others its handle, which
        Launchpad replaces by "host:port".
      number: how many learners there are.
      i: this one's number.
    """

    coordinator: Any
    number: int
    i: int


def construct(node: type[Node], limit_s: float, **arguments: Any) -> Node:
    """Constructs a node, with its limit, in the process or thread that Launchpad has made for it.

    Where it gets the stores of several replay servers, they are joined into one; an address becomes "host:port".
    """
    if isinstance(address := arguments.get("address"), lp_address.Address):
        arguments["address"] = address.resolve()
    if isinstance(shards := arguments.get("replay"), ReplayHandles):
        arguments["replay"] = joined(shards.handles, shards.first)
    if isinstance(meeting := arguments.get("agreement"), Meeting):
        arguments |= _learning_together(meeting, arguments)
    owns_process = threading.current_thread() is threading.main_thread()
    if owns_process:
        with contextlib.suppress(OSError):  # A disk that is full or read-only stops no node.
            stacks.offer()
        memory.offer_first()
    made = node(**arguments)
    if owns_process:
        made.launched_at = time.monotonic() - process_age()
    made.limit_s = limit_s
    made.launcher = _launcher
    made.past_lives = int(os.environ.get(PAST_LIVES, "0"))
    return made


def _learning_together(meeting: Meeting, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that one of several learners gets in the place of a single one's: only the first publishes."""
    from boonta.nodes.hosts.coordination import Hosts
    from boonta.nodes.hosts.learners import SeveralLearners, Uncounted

    place = meeting.coordinator
    hosts = Hosts(place if isinstance(place, str) else place.resolve(), meeting.number, meeting.i)
    together: dict[str, Any] = {"agreement": SeveralLearners(hosts, given.get("monitor"))}
    if "replay" in given:
        together["replay"] = joined([given["replay"]], learners=hosts.number)
    if not hosts.first:
        together |= {"variables": None, "monitor": Uncounted(given["monitor"])}
    return {name: value for name, value in together.items() if name in given}


class Service:
    """A node that others call, and the server by which they do.

    Args:
      node: the node.
      address: where its server listens, once the launcher has bound it.
      key: the file of the run's key; None for a server that only this machine reaches.
    """

    def __init__(self, node: Node, address: lp_address.Address, key: str | None):
        self.node = node
        self._address = address
        self._key = key

    def run(self) -> None:
        """Serves the methods that the node's class lists, and no others, while it runs the node to its end."""
        methods = {name: getattr(self.node, name) for name in self.node.methods}
        with Server(self._address.resolve(), methods, self._key):
            self.node.run()


def serve(
    node: type[Node], limit_s: float, address: lp_address.Address, key: str | None, arguments: Mapping[str, Any]
) -> Service:
    """Constructs a node that others call; see `construct`."""
    return Service(construct(node, limit_s, **arguments), address, key)


def _launcher() -> threading.Event:
    """See `Node.launcher`."""
    if threading.current_thread() is threading.main_thread():  # It owns its process.
        # Ctrl-C reaches all processes; only the launcher handles it, and asks all nodes to stop.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # So does a terminal's end. Alone, a node has a handler.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        # SIGTERM may reach all, too, as from `timeout`; each node then ends as if it were asked to, and the launcher
        # kills those that are late. Launchpad's alarm would kill what saves, and what is about to exit.
        worker_manager.get_worker_manager()._termination_notice_secs = -1
    return lp.stop_event()


class Fixed(lp_address.AbstractAddressBuilder):
    """An address that is known in advance; it is here since every process of a caller unpickles it."""

    def __init__(self, address: str):
        self._address = address

    def build(self) -> str:
        return self._address


class Handle(base.Handle):
    """A node's handle of another that listens; Launchpad replaces it by what `make` makes of the address.

    Args:
      address: where the other listens, once the launcher has bound it.
      make: takes the address; the nodes' own processes unpickle it.
    """

    def __init__(self, address: lp_address.Address, make: Callable[[str], Any]):
        self._address = address
        self._make = make

    def dereference(self) -> Any:
        return self._make(self._address.resolve())
