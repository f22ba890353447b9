"""Runs any node of a program on any host: the program's nodes, their addresses, and one node alone.

Launchpad launches a program from one machine, which pickles each node for the process that runs it. Here every host
builds the same program from the same file and flags, binds every node's addresses to hosts and ports known to all, and
runs its own node. A platform (Kubernetes, Slurm, machines with SSH) decides only which host a node is on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from boonta.deploy.ending import Ending
from boonta.nodes.monitor import Monitor
from boonta.nodes.rpc.wire import UNIX, host_and_port, require_free
from boonta.nodes.watch.program_end import SAVING_S
from boonta.nodes.watch.stopwatch import CONNECTING, before_nodes
from boonta.programs.wiring.program import Group, Program
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.several import meeting
from boonta.programs.wiring.supervision import interrupts
from boonta.programs.wiring.supervision.view import View

if TYPE_CHECKING:
    from boonta.deploy.tunnelled import Route
    from boonta.programs.wiring.interpreters.launchpad import Launchable

BASE_PORT = 20_000  # Linux assigns higher ports to clients.
REACH_S = 900.0  # Hosts may still have to start, and to pull images.
# With many hosts nodes come and go, and a platform supervises them, so the monitor waits this long for heartbeats.
PATIENCE = {"start_s": REACH_S, "lost_s": 180.0, "supervised": False}
# Where one node has ended without which the program doesn't go on, the others get this long to save and to end.
END_S = SAVING_S + 60.0
# Roles of nodes that hold no state that others need: the program goes on while they are away, and they may come back.
DISPENSABLE = ("actor", "reanalyzer", "evaluator")
# Set in a process that has its group's environment variables; its value identifies them, see `entered`.
ENTERED = "BOONTA_ENVIRONMENT"
POLL_S, LOG_EVERY_S = 0.5, 10.0


@dataclasses.dataclass(frozen=True)
class Task:
    """One node of a program.

    Attributes:
      label: the group's name.
      index: the node's number in the group.
      name: the node's name, unique in the program.
      ports: the ports it listens on; no two tasks have the same, so that they may share a host.
      role: the role of the node's class.
      joined: whether the node joins those that the program names.
    """

    label: str
    index: int
    name: str
    ports: tuple[int, ...]
    role: str
    joined: bool = False

    @property
    def is_dispensable(self) -> bool:
        """Whether the program goes on without the node."""
        return self.role in DISPENSABLE

    @property
    def decides(self) -> bool:
        """Whether the node's end is the program's, also where a platform starts it again."""
        return self.role == "learner"


def plan(program: Program, base_port: int = BASE_PORT) -> tuple[Task, ...]:
    """The program's tasks, in the same order and with the same ports on every host.

    Raises:
      BadInput: it doesn't have exactly one monitor, named "monitor".
    """
    monitors = [name for group in program.all_groups if group.node.role == "monitor" for name in group.names]
    if monitors != ["monitor"]:
        raise BadInput(f"program {program.name} has monitors {monitors}; it needs one, called 'monitor', to end it")
    tasks, port = [], base_port
    for group in program.all_groups:
        for index, name in enumerate(group.names):
            ports = (port,) if group.is_called or (meeting(group) and index == 0) else ()
            tasks.append(Task(group.label, index, name, ports, group.node.role))
            port += len(ports)
    return tuple(tasks)


def patient(program: Program) -> Program:
    """The program with a monitor that waits for hosts as long as they may take."""
    (monitor,) = (group for group in program.all_groups if group.node.role == "monitor")
    settings = {**monitor.settings, **PATIENCE}
    others = [group for group in program.groups if group.node.role != "monitor"]
    return dataclasses.replace(program, groups=(Group(monitor.label, monitor.node, 1, settings), *others))


def find(tasks: tuple[Task, ...], label: str, index: int) -> Task:
    """The task of a group; an actor may have any index, and joins the program's own if it is beyond theirs.

    Raises:
      BadInput: there is no such task.
    """
    group = [task for task in tasks if task.label == label]
    if not group:
        raise BadInput(f"--label {label!r} is no group of this program; it has {sorted({t.label for t in tasks})}")
    if index >= len(group) and group[0].role == "actor":
        return Task(label, index, f"{label}/{index}", (), group[0].role, joined=True)
    if not 0 <= index < len(group):
        raise BadInput(f"--index is {index}; group {label!r} has {len(group)} nodes, numbered from 0")
    return group[index]


def entered(environment: dict[str, str]) -> str:
    """The value of `ENTERED` that goes with these variables; a template that sets both spares a second start."""
    return json.dumps(environment, sort_keys=True)


def is_pattern(hosts: str) -> bool:
    """Whether hosts are given as a pattern, by which each task has one of its own."""
    return "{" in hosts


def hosts_of(hosts: str, tasks: Sequence[Task]) -> dict[Task, str]:
    """The host of each task.

    Args:
      hosts: names separated by commas, over which the tasks are dealt in turn; or one pattern with `{label}` and
        `{index}` in it, such as "run-{label}-0-{index}.run".
      tasks: all tasks of the program.

    Raises:
      BadInput: `hosts` is neither.
    """
    if is_pattern(hosts):
        try:
            return {task: hosts.format(label=task.label, index=task.index) for task in tasks}
        except (KeyError, IndexError, ValueError) as error:
            raise BadInput(f"--hosts {hosts!r} may have only {{label}} and {{index}} in it: {error!r}") from error
    names = [name.strip() for name in hosts.split(",")]
    if not all(names):
        raise BadInput(f"--hosts {hosts!r} must be host names separated by commas, or a pattern with {{label}}")
    return {task: names[i % len(names)] for i, task in enumerate(tasks)}


def addresses_of(hosts: Mapping[Task, str]) -> dict[str, str]:
    """The addresses of tasks that listen, "host:port" by name, from the hosts of all tasks."""
    return {task.name: f"{host}:{port}" for task, host in hosts.items() for port in task.ports}


def bind(
    program: Program, addresses: Mapping[str, str], key: str | None, route: Route | None = None, only: str = ""
) -> Launchable:
    """Does in this process what Launchpad does before it launches a program.

    Args:
      program: the program.
      addresses: where its nodes listen, by name.
      key: the file of the run's key, the same on every host; nodes refuse calls of others. None for Unix sockets.
      route: this process's way to the tables, if it leads through a tunnel.
      only: the name of the node that is to run here: of a large program, the others take long to make. Empty for all.

    Raises:
      OSError: the tunnel can't be opened.
    """
    from boonta.programs.wiring.interpreters import alone, launchpad

    launchable = launchpad.to_launchpad(patient(program), key, only)
    if route is not None:
        addresses = route.open(addresses)
    alone.bind(launchable, addresses, {task.name: task.label for task in plan(program)}, key)
    return launchable


def run(
    launchable: Launchable,
    task: Task,
    tasks: Sequence[Task],
    build: str,
    reach_s: float,
    route: Route | None,
    starts_again: bool = False,
    when_over: Callable[[], None] = lambda: None,
) -> int:
    """Runs one node of a bound program in this process and thread, until the program or this process is to end.

    Args:
      launchable: bound.
      task: the node to run.
      tasks: all tasks of the program; the monitor expects their nodes.
      build: a description of what the program was built from; the monitor refuses nodes with another one.
      reach_s: how long to wait for the servers that the node calls.
      route: this process's way to the tables, if it leads through a tunnel.
      starts_again: whether the platform starts each node again that ends.
      when_over: called in the monitor's process once the program ends, even if nodes still save; maybe repeatedly.

    Returns:
      The exit code: 0 after the program's work, 1 after a failure, here or elsewhere, 143 if SIGTERM came first, to a
      learner that ends because another got it, too; of the monitor also 3, see `COLLAPSED_CODE`.

    Raises:
      OSError: a port is taken, or a server can't be reached.
    """
    from boonta.programs.wiring.interpreters import alone

    servers = alone.servers_of(launchable, task.name)
    if route is None or not route.is_exit:  # An exit listens already.
        _require_free(task)
    servers = servers if route is None else route.beyond(servers)
    with before_nodes(CONNECTING):
        _await_servers(servers, task, reach_s)
    lone = alone.lone(launchable, task.name)
    instance = lone.node
    instance.build, instance.joined, instance.apart = build, task.joined, True
    if starts_again:
        instance.monitor_away_s = REACH_S  # Its next host may have to start, and to pull images.
    ending = Ending(task, instance, lone.stop, starts_again and not task.decides)
    # Launchpad's own handlers would kill the process after 10 s, and leave Ctrl-C to a launcher.
    interrupts.handle(ending.on_signal)
    instance.launcher = lambda: lone.stop
    with contextlib.ExitStack() as stack:
        if isinstance(instance, Monitor):
            others = [other for other in tasks if other is not task]
            dispensable = [each.name for each in others if each.is_dispensable]
            returning = [each.name for each in others if starts_again and not each.decides]
            instance.expect([each.name for each in others], dispensable, returning)
            stack.enter_context(_shown(instance, when_over))
        with contextlib.suppress(Exception):  # It ends the node later, if the monitor goes on giving no answer.
            instance.heartbeat()  # The answer has what no launcher counts here: earlier lives, and starts.
        try:
            lone.run()
        except Exception as error:
            ending.error = f"{task.name}: {type(error).__name__}: {error}"
    return ending.code()


def _require_free(task: Task) -> None:
    for port in task.ports:
        try:
            require_free(port, task.name)
        except OSError as error:
            raise OSError(f"{error} here; choose another --base-port") from error


def _await_servers(servers: Sequence[str], task: Task, reach_s: float) -> None:
    """Waits until all servers that the node calls are listening: hosts start in any order, minutes apart.

    Raises:
      OSError: one could not be reached.
    """
    end, logged = time.monotonic() + reach_s, time.monotonic()
    for address in servers:
        if address.startswith(UNIX):  # It is there before any node can join.
            continue
        while True:
            try:
                socket.create_connection(host_and_port(address), timeout=POLL_S).close()
                break
            except OSError as error:
                if time.monotonic() > end:
                    raise OSError(f"{task.name} could not reach {address} in {reach_s:.0f} s: {error}") from error
                if time.monotonic() - logged > LOG_EVERY_S:
                    logged = time.monotonic()
                    print(f"{task.name} waits for {address}: {error}", flush=True)
            time.sleep(POLL_S)


@contextlib.contextmanager
def _shown(monitor: Monitor, when_over: Callable[[], None]) -> Any:
    """Shows the program's status while the monitor runs; the monitor stays until its last status has been read."""
    over = threading.Event()

    def show() -> None:
        with View() as view:
            while not over.wait(POLL_S):
                status = monitor.status()
                if status["reason"]:
                    when_over()
                view.show(status)

    viewer = threading.Thread(target=show, daemon=True)
    viewer.start()
    try:
        yield
    finally:
        over.set()
        viewer.join(timeout=LOG_EVERY_S)
