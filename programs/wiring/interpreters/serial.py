"""The serial schedule: one thread steps the nodes of a program in turn, for a debugger and for runs that repeat."""

from __future__ import annotations

import contextlib
import functools
import signal
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from boonta.nodes.base import Node, Stopped
from boonta.nodes.monitor import Monitor
from boonta.nodes.rpc.wire import free_port
from boonta.nodes.tables.reverb.store import connect
from boonta.nodes.watch.stopping import failure_of
from boonta.programs.wiring.checks import check_nodes
from boonta.programs.wiring.construction import construct, signature_of
from boonta.programs.wiring.program import Program
from boonta.programs.wiring.several import dealt
from boonta.programs.wiring.supervision import interrupts
from boonta.programs.wiring.supervision.view import View, conclude


def prepare(program: Program) -> Callable[[], int]:
    """Returns a function that runs the program serially.

    Raises:
      ValueError: a node or setting can't work; the message names it, its value and the values allowed.
      ImportError: the tables need Reverb, which is missing.
    """
    require(program)
    if any(group.node.role == "replay" for group in program.all_groups):
        from boonta.programs.wiring.interpreters import launchpad  # noqa: F401  # Its ImportError names what is missing.
    return functools.partial(run, program)


def require(program: Program) -> None:
    """See `launch.require`."""
    check_nodes(program)


def run(program: Program) -> int:
    """Steps every node in program order until the monitor ends the program; returns the exit code of `launch.prepare`.

    Where the table is a queue, the same seed gives the same actions and updates: a learner steps as soon as its batch
    has been written. Reverb draws from replay without a seed. A node that fails ends the program, once all nodes have
    been closed.
    """
    interrupts.handle(_interrupt)
    try:
        with View() as view, contextlib.ExitStack() as endings:
            status = _loop(_start(build(program), endings), view)
    except KeyboardInterrupt as interrupt:  # One that libraries or environments raise themselves has no number.
        return conclude({}, "", *interrupt.args[:1] or (signal.SIGINT,))
    except _Failed as failed:
        traceback.print_exception(failed.cause)
        return conclude({}, str(_first(failed)))
    return conclude(status, failure_of(status))


class _Failed(Exception):
    """A node has failed; the message is what the other ways to run say of it."""

    def __init__(self, node: Node, cause: BaseException):
        super().__init__(node.own_failure)
        self.cause = cause


def _first(failed: _Failed) -> _Failed:
    """The failure that came first: after it, nodes that are closed may fail, too."""
    first, earlier = failed, failed.__context__
    while earlier is not None:
        if isinstance(earlier, _Failed):
            first = earlier
        earlier = earlier.__context__
    return first


def _do(node: Node, activity: str, task: Callable[[], None]) -> None:
    """Has a node do a task.

    Raises:
      _Failed: from the node's error, such as one of its environment, or a `SystemExit`.
    """
    try:
        with node.stopwatch(activity):
            task()
    except Stopped:  # It was asked to, within its step.
        pass
    except (KeyboardInterrupt, _Failed):  # A node that waits inside its step isn't the one that has failed meanwhile.
        raise
    except BaseException as error:
        node.fail(error)
        raise _Failed(node, error) from error


def _interrupt(number: int, frame: Any) -> None:
    del frame
    raise KeyboardInterrupt(number)


def _ignore_interrupts() -> None:
    """Lets the nodes be closed in peace; what they save is worth the seconds."""
    interrupts.handle(lambda number, frame: None)


def build(program: Program) -> list[Node]:
    """Constructs the program's nodes in this process; handles are the nodes themselves, or Reverb clients."""
    handles: dict[str, list[Any]] = {}
    nodes = []
    for group in program.all_groups:
        role = group.node.role
        address = f"localhost:{free_port()}" if role == "replay" else None
        members = [construct(program, group, i, {**dealt(handles, i), "address": address}) for i in range(group.number)]
        if address is not None:
            handles[role] = [connect(address, signature_of(program))]
        elif group.is_called:
            handles[role] = members
        nodes += members
    return nodes


def _start(nodes: Sequence[Node], endings: contextlib.ExitStack) -> Sequence[Node]:
    """Starts the nodes; when `endings` closes, each reports and is closed, in reverse order, even if others fail."""
    for node in nodes:
        endings.callback(_do, node, "closing", node.close)
        endings.callback(node.heartbeat)
        endings.callback(_ignore_interrupts)
        _do(node, "starting", node.start)
    return nodes


def _step(node: Node) -> None:
    _do(node, "stepping", node.step)
    _do(node, "stepping", node.settle)


def _loop(nodes: Sequence[Node], view: View) -> dict[str, Any]:
    """Steps until the monitor has a reason to end; returns its last status."""
    (monitor,) = (node for node in nodes if isinstance(node, Monitor))
    learners = [node for node in nodes if node.role == "learner"]
    others = [node for node in nodes if node is not monitor and node not in learners]
    renewing = [node for node in others if node.role == "reanalyzer"]
    stepping: list[Node] = []  # Nodes that wait inside a step while others step.
    status: dict[str, Any] = monitor.status()

    def attend() -> None:
        """Has all nodes report, and looks at what the monitor makes of it."""
        nonlocal status
        for node in nodes:
            node.heartbeat()  # The monitor counts a silent node as lost, even a resting one.
        monitor.round()
        status = monitor.status()
        view.show(status)

    def learn() -> None:
        """Steps learners while a batch is ready; otherwise actors could fill the queue and wait for ever.

        A table that has just enough in it may give a thousand batches at once, so the program may end between two, but
        not while a node waits inside its step, which it may do until these batches are taken.
        """
        for learner in learners:
            ready = learner.ready()
            while ready and (stepping or not status["reason"]):
                _step(learner)
                ready = learner.ready()
                if ready and not stepping:
                    attend()

    def work(nodes: Sequence[Node]) -> None:
        """Steps each node that is ready, and learners in between, until the program ends."""
        learn()
        for node in nodes:
            if status["reason"]:
                return  # Nodes have been asked to stop.
            if node not in stepping and node.ready():
                stepping.append(node)
                _step(node)
                stepping.pop()
                learn()

    # While a reanalyzer waits, the other nodes work; while another node waits, reanalyzers work.
    for node in others:
        node.meanwhile = functools.partial(
            work, [n for n in others if n not in renewing] if node in renewing else renewing
        )
    while True:
        work(others)
        attend()
        if status["reason"]:
            return status
