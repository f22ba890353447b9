"""Runs the nodes of a program as threads of this process."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent import futures
from typing import Any

from boonta.nodes.base import Node
from boonta.nodes.hosts.agreement import Agreement, SeveralHosts, SingleHost
from boonta.nodes.hosts.host_monitor import HostMonitor
from boonta.nodes.monitor import Monitor
from boonta.nodes.watch.ending import end_now
from boonta.programs.wiring import supervise
from boonta.programs.wiring.interrupts import Signals
from boonta.programs.wiring.run import Run
from boonta.programs.wiring.workers import Thread


def monitor_of(run: Run, **settings: Any) -> Monitor:
    """The monitor of this host's process; of several hosts each has one, which ends with the others."""
    if run.hosts.number == 1:
        return Monitor("monitor", run.workdir, run.stop, log=run.log, **settings)
    return HostMonitor("monitor", run.own.workdir, run.stop, run.hosts, log=run.log, **settings)


def agreement_of(monitor: Monitor) -> Agreement:
    """How the node that learns agrees with those of other hosts, if there are any."""
    return SeveralHosts(monitor) if isinstance(monitor, HostMonitor) else SingleHost()


def run(monitor: Monitor, nodes: Sequence[Node]) -> int:
    """Runs the nodes of a program in one process, each in a thread; returns when they have ended.

    Returns:
      The exit code: 0 if a stop rule was reached, 1 if a node failed, 130 after Ctrl-C, 143 after SIGTERM.
    """
    signals = Signals()
    all_nodes = [monitor, *nodes]
    pool = futures.ThreadPoolExecutor(len(all_nodes))
    workers = [Thread(node.name, pool.submit(node.run)) for node in all_nodes]
    code = supervise.stay(workers, monitor, signals)
    if any(worker.alive() for worker in workers):  # Threads can't be killed.
        end_now(code)
    return code
