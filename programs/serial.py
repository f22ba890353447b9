"""The serial schedule: the nodes of a program stepped in turn by one thread, for a debugger and for repeatable runs."""

from __future__ import annotations

import signal
import sys
from typing import Any

import tree
from launchpad import context
from launchpad.nodes.courier.node import CourierHandle
from launchpad.nodes.dereference import Dereferenceable

from nodes.base import Node
from nodes.learner import Learner
from nodes.monitor import Monitor
from nodes.services import Program
from programs.view import View


def run(program: Program) -> int:
    """Steps every node in program order until the monitor ends the program; the exit code as `launch.launch` gives it.

    The same seed gives the same sequence of actions and updates: a learner steps as soon as its batch has been written.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    nodes: list[Node] = []
    code = 0
    try:
        for node in build(program):
            node.start()
            nodes.append(node)
        status = _loop(nodes)
        code = 1 if status["failure"] else 0
        print(f"{'error' if code else 'done'}: {status['failure'] or status['reason']}", flush=True)
    except KeyboardInterrupt:
        code = 130
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    finally:
        for node in reversed(nodes):
            node.heartbeat()
            node.close()
    return code


def build(program: Program) -> list[Node]:
    """Constructs the program's nodes in this process; handles become the objects themselves, or Reverb clients."""
    built: dict[int, Node] = {}  # by the address that their handles carry
    nodes = []

    def resolve(value: Any) -> Any:
        if isinstance(value, CourierHandle):
            return built[id(value._address)]
        return value.dereference() if isinstance(value, Dereferenceable) else value

    for node in program.get_all_nodes():
        node._initialize_context(context.LaunchType.LOCAL_MULTI_THREADING, launch_config=None)
        node.bind_addresses()
    for node in program.get_all_nodes():
        args, kwargs = tree.map_structure(resolve, (node._args, node._kwargs))
        instance = node._constructor(*args, **kwargs)
        built.update({id(address): instance for address in node.addresses})
        nodes.append(instance)
    return nodes


def _loop(nodes: list[Node]) -> dict[str, Any]:
    """Steps until the monitor says why to end; its last status."""
    (monitor,) = (node for node in nodes if isinstance(node, Monitor))
    view = View()
    while True:
        for node in nodes:
            # A learner takes all that is there, or else one thread could fill a queue that only it empties.
            while node is not monitor and node.ready():
                node.step()
                node.settle()
                if not isinstance(node, Learner):
                    break
        for node in nodes:
            node.heartbeat()  # also of those that rested: the monitor counts the silent as lost
        monitor.round()
        status = monitor.status()
        view.show(status)
        if status["reason"]:
            view.close(status)
            return status
