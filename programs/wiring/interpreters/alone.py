"""One node of a Launchpad program alone, in this process, while the others run on hosts of their own.

Addresses are bound to hosts and ports known to all; Launchpad itself launches all nodes of a program from one machine.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from boonta.nodes.base import Node
from boonta.nodes.rpc.client import Client
from boonta.programs.wiring.interpreters.launchpad import Launchable

# isort: split
# The module above names what is missing.
from absl import flags
from launchpad import context
from launchpad.launch import worker_manager

from boonta.programs.wiring.interpreters import worker


def bind(launchable: Launchable, addresses: Mapping[str, str], labels: Mapping[str, str], key: str | None) -> None:
    """Does for the whole program, in this process, what Launchpad does before it launches one.

    Contexts are set first, then handles are connected to their nodes, then addresses are bound: a handle may read the
    context, and change the addresses.

    Args:
      launchable: the program.
      addresses: "host:port" by the name of the node that listens there; one of them is the monitor's.
      labels: the labels of the nodes' groups, by the nodes' names.
      key: the file of the run's key; None on this machine.
    """
    # Launchpad's own stopper signals the process that made it, which it takes for the launcher. There is none here.
    stopper = functools.partial(_stop_program, addresses["monitor"], key)
    for node in launchable.nodes.values():
        node.launch_context.initialize(context.LaunchType.LOCAL_MULTI_PROCESSING, None, stopper)
    for name, node in launchable.nodes.items():
        for handle in node.input_handles:
            handle.connect(node, labels[name])
    for name, node in launchable.nodes.items():
        for address in node.addresses:
            address.bind(worker.Fixed(addresses[name]))


def _stop_program(monitor: str, key: str | None, mark_as_completed: bool = False) -> None:
    """Asks the monitor to end the program."""
    del mark_as_completed
    Client(monitor, Node.answer_s, key).stop_program("a node called launchpad.stop()")


class Lone(NamedTuple):
    """One node of a bound program, constructed in this process.

    Attributes:
      node: our node.
      run: serves the node, if others call it, and runs it to its end.
      stop: the event that stops the node.
    """

    node: Node
    run: Callable[[], Any]
    stop: threading.Event


def servers_of(launchable: Launchable, name: str) -> list[str]:
    """The addresses, "host:port", that a node of a bound program calls."""
    # A handle has no public access to its address.
    return sorted({handle._address.resolve() for handle in launchable.nodes[name].input_handles})


def lone(launchable: Launchable, name: str) -> Lone:
    """Constructs one node of a bound program in this process and thread."""
    node = launchable.nodes[name]
    flags.FLAGS([sys.argv[0]])  # The manager reads flags, which nothing has parsed yet.
    # The manager is registered in this thread, where the node's code looks for its stop event.
    manager = worker_manager.WorkerManager(register_in_thread=True, register_signals=False)
    # The caller needs the node before it runs. Launchpad's public `function` constructs and runs it at once, but takes
    # the instance that this method has constructed.
    made = node._construct_instance()
    return Lone(made.node if isinstance(made, worker.Service) else made, node.function, manager.stop_event())
