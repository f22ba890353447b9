"""Runs the nodes of a program as threads of this process."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from concurrent import futures
from typing import Any

from boonta.nodes.base import Node
from boonta.nodes.hosts.agreement import Agreement, SeveralHosts
from boonta.nodes.hosts.host_monitor import HostMonitor
from boonta.nodes.monitor import Monitor
from boonta.programs.wiring.program import Program
from boonta.programs.wiring.run import Run
from boonta.programs.wiring.run_folder import journal
from boonta.programs.wiring.supervision import supervise
from boonta.programs.wiring.supervision.interrupts import Signals
from boonta.programs.wiring.supervision.workers import Thread

_workers: list[Thread] = []  # The nodes of the program that `run` has run last.


def monitor_of(run: Run, **settings: Any) -> Monitor:
    """The monitor of this host's process; of several hosts each has one, which ends with the others."""
    if run.hosts.number == 1:
        return Monitor("monitor", run.workdir, run.stop, log=run.log, **settings)
    return HostMonitor("monitor", run.own.workdir, run.stop, run.hosts, log=run.log, **settings)


def agreement_of(monitor: Monitor) -> Agreement:
    """How the node that learns agrees with those of other hosts, if there are any."""
    return SeveralHosts(monitor) if isinstance(monitor, HostMonitor) else Agreement()


def require_roles(
    program: Program, launch: str, roles: Sequence[str], needed: Sequence[str], once: Sequence[str]
) -> None:
    """Refuses a program with nodes that this way to run has no place for, or without those that it needs.

    Args:
      program: the program.
      launch: the way to run, as `--launch` names it.
      roles: those that it has a place for.
      needed: those of which the program must have a group.
      once: those of which it may have no second group.

    Raises:
      ValueError: names the groups, or the role that is missing.
    """
    for group in program.groups:
        role = group.node.role
        if role not in roles:
            raise ValueError(
                f"{program.name}: --launch {launch} has no {group.label} ({group.node.__name__}); it has "
                f"{', '.join(roles)}"
            )
        alike = [each.label for each in program.groups if each.node.role == role]
        if role in once and len(alike) > 1:
            labels = " and ".join(alike)
            raise ValueError(
                f"{program.name}: --launch {launch} has one group of {role} nodes; the program has {labels}"
            )
    missing = [role for role in needed if program.of_role(role) is None]
    if missing:
        raise ValueError(f"{program.name}: --launch {launch} needs a node of role {missing[0]!r}; the program has none")


def run(monitor: Monitor, nodes: Sequence[Node]) -> int:
    """Runs the nodes of a program, each in a thread; returns when all have ended, except those that hang.

    Returns:
      The exit code: 0 if a stop rule was reached, 1 if a node failed, 130 after Ctrl-C, 143 after SIGTERM.
    """
    signals = Signals()
    all_nodes = [monitor, *nodes]
    pool = futures.ThreadPoolExecutor(len(all_nodes))
    _workers[:] = [Thread(node.name, pool.submit(_run_node, node)) for node in all_nodes]
    code = supervise.stay(_workers, monitor, signals)
    if isinstance(monitor, HostMonitor):  # A thread that hangs here must not cost another host its last save.
        monitor.hosts.leave(monitor.agreed)
    return code


def hang() -> bool:
    """Whether a node hangs in its thread: threads can't be killed, and Python's own exit would wait for it."""
    return any(worker.alive() for worker in _workers)


def _run_node(node: Node) -> None:
    """Runs a node. If it fails, this prints the traceback; the run's own message only names the cause."""
    try:
        node.run()
    except BaseException as error:
        with journal.outliving_terminal():
            traceback.print_exception(type(error), error, error.__traceback__)
        journal.LOG.debug("%s failed", node.name, exc_info=error)
        raise
