"""The serial schedule: the nodes of a program stepped in turn by one thread, for a debugger and for repeatable runs."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
from collections.abc import Sequence
from typing import Any

import tree
from launchpad import context
from launchpad.nodes.courier.node import CourierHandle
from launchpad.nodes.dereference import Dereferenceable

from boonta.nodes.base import Node
from boonta.nodes.learner import Learner
from boonta.nodes.monitor import Monitor
from boonta.nodes.reanalyzer import Reanalyzer
from boonta.nodes.services import Program
from boonta.programs.wiring.view import View


def run(program: Program) -> int:
    """Steps every node in program order until the monitor ends the program; the exit code as `launch.launch` gives it.

    The same seed gives the same sequence of actions and updates: a learner steps as soon as its batch has been written.
    What a node raises is raised, once all nodes have been closed.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        with View() as view, contextlib.ExitStack() as endings:
            status = _loop(_start(build(program), endings), view)
    except KeyboardInterrupt as interrupt:
        print(f"ended by {signal.Signals(interrupt.args[0]).name}", flush=True)
        return 128 + interrupt.args[0]
    if status["failure"]:
        print(f"error: {status['failure']}", file=sys.stderr, flush=True)
        return 1
    print(f"done: {status['reason']}", flush=True)
    return 0


def _interrupt(number: int, frame: Any) -> None:
    del frame
    raise KeyboardInterrupt(number)


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


def _start(nodes: Sequence[Node], endings: contextlib.ExitStack) -> Sequence[Node]:
    """Starts the nodes; at the end each is heard and closed, the last first, whatever happens to the others."""
    for node in nodes:
        endings.callback(node.close)
        endings.callback(node.heartbeat)
        node.start()
    return nodes


def _loop(nodes: Sequence[Node], view: View) -> dict[str, Any]:
    """Steps until the monitor says why to end; its last status."""
    (monitor,) = (node for node in nodes if isinstance(node, Monitor))
    learners = [node for node in nodes if isinstance(node, Learner)]
    others = [node for node in nodes if node is not monitor and node not in learners]
    renewing = [node for node in others if isinstance(node, Reanalyzer)]
    stepping: list[Node] = []  # who waits within its step, while others work in its thread

    def learn() -> None:
        """Steps learners on all that is there: or else one thread could fill a queue that only they empty."""
        for learner in learners:
            while learner.ready():
                learner.step()
                learner.settle()

    def work(nodes: Sequence[Node]) -> None:
        """Gives everybody a turn."""
        learn()
        for node in nodes:
            if node not in stepping and node.ready():
                stepping.append(node)
                node.step()
                node.settle()
                stepping.pop()
                learn()

    # A learner waits for reanalyzers, reanalyzers wait for what actors write, and both for a learner to make room.
    for node in others:
        node.meanwhile = functools.partial(
            work, [n for n in others if n not in renewing] if node in renewing else renewing
        )
    while True:
        work(others)
        for node in nodes:
            node.heartbeat()  # also of those that rested: the monitor counts the silent as lost
        monitor.round()
        status = monitor.status()
        view.show(status)
        if status["reason"]:
            return status
