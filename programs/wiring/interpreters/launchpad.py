"""The one module that turns a program into a Launchpad program, and launches it on this machine.

Every use of Launchpad's private parts is here, in `alone` or in `worker`. They are those of dm-launchpad 0.5.0; a
version that lets a program choose its log folder, and maps each process to its node, would make these uses needless.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import os
import pathlib
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple

from boonta.nodes.base import Node
from boonta.nodes.rpc.client import Client
from boonta.nodes.rpc.wire import UNIX
from boonta.nodes.tables.reverb.library import load
from boonta.nodes.tables.reverb.store import connect
from boonta.programs.wiring.construction import limit_of, node_arguments, signature_of
from boonta.programs.wiring.program import Group, Program
from boonta.programs.wiring.run_folder.state import NODES
from boonta.programs.wiring.several import dealt, first_group, meeting
from boonta.programs.wiring.supervision import workers
from boonta.programs.wiring.supervision.interrupts import held

try:
    import launchpad as lp
    from launchpad import address as lp_address
    from launchpad import context
    from launchpad.launch import worker_manager
    from launchpad.launch.run_locally import launch_local_output_to_files

    from boonta.programs.wiring.interpreters import worker
except ImportError as error:
    raise ImportError(
        "--launch local_mp, local_mt and serial need dm-launchpad, dm-reverb and TensorFlow, whose newest wheels are "
        "for CPython 3.10: install the extra [cluster] there (./run does), or choose --launch sebulba or anakin"
    ) from error

# A variable server that is asked for its version replies within half a second. One that is asked to stop doesn't wait
# longer than this for another that hangs.
ASK_S = 5.0
STATUS_DEADLINE_S = 2.0  # The launcher asks the monitor several times a second, and has more to do.


class Launchable(NamedTuple):
    """A program for Launchpad.

    Attributes:
      program: Launchpad's program.
      nodes: Launchpad's nodes, by the names of ours, in program order.
    """

    program: lp.Program
    nodes: dict[str, Any]


def to_launchpad(program: Program, key: str | None = None, only: str = "") -> Launchable:
    """Turns the value into Launchpad's program; handles only point backwards along program order.

    Args:
      program: the program.
      key: the file of the run's key, for several hosts; None for this machine.
      only: name of the one node that will run here. Other nodes are included only if nodes call them, or if they are
        among several learners. Empty includes all.
    """
    launchpad_program = lp.Program(program.name)
    handles: dict[str, list[Any]] = {}  # Handles by role.
    nodes: dict[str, Any] = {}
    replays: list[_ReplayNode] = []
    for group in program.all_groups:
        role = group.node.role
        with launchpad_program.group(group.label):
            for i, name in enumerate(group.names):
                if only not in ("", name) and not (group.is_called or meeting(group)):
                    continue
                tables = {"replay": _tables(program, group, i, replays)} if replays else {}
                node = nodes[name] = _node(program, group, i, {**dealt(handles, i), **tables}, key, nodes)
                launchpad_program.add_node(node)
        if role == "replay":
            replays = [nodes[name] for name in group.names]
        elif group.is_called:
            handles[role] = [nodes[name].create_handle() for name in group.names]
    return Launchable(launchpad_program, nodes)


def _tables(program: Program, group: Group, i: int, replays: Sequence[_ReplayNode]) -> Any:
    """A node's handle of the replay server, or its handles of all; an actor only writes."""
    signature = None if group.node.role == "actor" else signature_of(program)
    handles = [replay.create_handle(signature) for replay in replays]
    return handles[0] if len(handles) == 1 else worker.ReplayHandles(handles, first_group(group, i, len(handles)))


def _node(
    program: Program, group: Group, i: int, handles: Mapping[str, Any], key: str | None, before: Mapping[str, Any]
) -> Any:
    """Launchpad's node for one of ours; Launchpad replaces the handles among the keywords by clients."""
    arguments, limit_s = node_arguments(program, group, i, handles), limit_of(program, group)
    if meeting(group):
        return _LearnerNode(group, i, limit_s, before.get(group.names[0]), arguments)
    if group.node.role == "replay":
        return _ReplayNode(group.node, limit_s, **arguments)
    if group.is_called:
        if group.node.role == "variables" and i:
            arguments["source"] = [before[group.names[0]].create_handle(answer_s) for answer_s in (ASK_S, None)]
        return _ServiceNode(group.node, limit_s, arguments, key)
    return worker.ProcessNode(worker.construct, group.node, limit_s, **arguments)


class _ServiceNode(worker.ProcessNode):
    """A node that others call; its handles become clients of it."""

    def __init__(self, node: type[Node], limit_s: float, arguments: Mapping[str, Any], key: str | None):
        self.address = lp_address.Address("rpc")
        self._node = node
        self._key = key
        super().__init__(worker.serve, node, limit_s, self.address, key, dict(arguments))
        self.allocate_address(self.address)

    def bind_addresses(self, **options: Any) -> None:
        """Does nothing: `launch` has bound the address to a Unix socket, which Launchpad knows nothing of."""

    def create_handle(self, answer_s: float | None = None) -> Any:
        node = self._node
        deadline_s = answer_s or node.answer_s
        make = functools.partial(Client, deadline_s=deadline_s, key=self._key, away_s=node.away_s)
        return self._track_handle(worker.Handle(self.address, make))


class _ReplayNode(worker.ProcessNode):
    """A replay server; its handles become clients of it."""

    def __init__(self, node: type[Node], limit_s: float, **arguments: Any):
        self._address = lp_address.Address("reverb")
        super().__init__(worker.construct, node, limit_s, address=self._address, **arguments)
        self.allocate_address(self._address)

    def bind_addresses(self, **options: Any) -> None:
        super().bind_addresses(**options)
        if self.launch_context.launch_type is context.LaunchType.LOCAL_MULTI_THREADING:
            load()  # One thread does; two at once could find it half loaded.

    def create_handle(self, signature: Callable[[], Any] | None = None) -> Any:
        return self._track_handle(worker.Handle(self._address, functools.partial(connect, signature=signature)))


class _LearnerNode(worker.ProcessNode):
    """One of several learners, which meet at the address of the first one."""

    def __init__(self, group: Group, i: int, limit_s: float, first: Any, arguments: Mapping[str, Any]):
        self._address = lp_address.Address("coordinator")
        agreement = worker.Meeting(first.create_handle() if first else self._address, group.number, i)
        super().__init__(worker.construct, group.node, limit_s, **{**arguments, "agreement": agreement})
        if first is None:
            self.allocate_address(self._address)

    def create_handle(self) -> Any:
        return self._track_handle(worker.Handle(self._address, str))


def launch(
    program: Program, environment: Mapping[str, Mapping[str, str]], logs: pathlib.Path, sockets: pathlib.Path
) -> tuple[list[workers.Worker], Any, dict[str, str]]:
    """Launches a program as processes or threads of this machine.

    Args:
      program: the program; `program.run.launch` chooses processes or threads.
      environment: environment variables of each node's process, by the node's name; none for threads.
      logs: the folder for the processes' output.
      sockets: the folder, private to this user, for the nodes' Unix sockets.

    Returns:
      The workers, in program order, a client of the monitor, and the addresses of the nodes that serve.
    """
    launchable = to_launchpad(program)
    saving = {name for group in program.all_groups if group.node.saves for name in group.names}
    for name, node in launchable.nodes.items():
        node.environment = environment.get(name, {})
        if name in saving:
            node.held = str(pathlib.Path(program.run.workdir, NODES).absolute())
        if isinstance(node, _ServiceNode):
            node.address.bind(worker.Fixed(f"{UNIX}{sockets / name.replace('/', '-')}"))
    # Launchpad reads the variable for this folder when it is imported, which is too early.
    launch_local_output_to_files._LOGGING_DIR = str(logs)
    with contextlib.redirect_stdout(io.StringIO()):  # Launchpad announces each file.
        manager = lp.launch(launchable.program, program.run.launch, terminal="output_to_files")
    manager._disable_alarm()  # After a SIGTERM, the alarm would kill this process silently.
    atexit.unregister(manager.wait)  # It would raise a failure again that has been reported already.
    addresses = {name: each.resolve() for name, node in launchable.nodes.items() for each in node.addresses}
    monitor = Client(addresses["monitor"], STATUS_DEADLINE_S)
    return _workers(program, list(launchable.nodes), manager, environment, logs), monitor, addresses


def _workers(
    program: Program,
    names: Sequence[str],
    manager: worker_manager.WorkerManager,
    environment: Mapping[str, Mapping[str, str]],
    logs: pathlib.Path,
) -> list[workers.Worker]:
    """The processes or threads that Launchpad has launched, in program order."""
    groups = {name: group for group in program.all_groups for name in group.names}
    # The manager has no public access to its workers; they are in program order, as the nodes are.
    active = manager._active_workers
    places = [(title, i) for title, handles in active.items() for i in range(len(handles))]
    launched: list[workers.Worker] = []
    for name, (title, i) in zip(names, places):
        handle = active[title][i]
        if isinstance(handle, subprocess.Popen):  # Its title is also the name of its log.
            start = functools.partial(_start_again, active[title], i, environment[name], logs / title)
            launched.append(workers.Process(name, handle, start, logs / title, meeting(groups[name])))
        else:
            launched.append(workers.Thread(name, handle.future))
    return launched


def _start_again(
    handles: list[subprocess.Popen], i: int, environment: Mapping[str, str], log: pathlib.Path, past_lives: int
) -> subprocess.Popen:
    """Starts a process like the one that died, in its place: the manager's handler of SIGQUIT kills those it has."""
    variables = {**os.environ, **environment, worker.PAST_LIVES: str(past_lives)}
    with _appending(log) as output, held():
        with contextlib.suppress(OSError):
            output.write(f"--- life {past_lives + 1}\n".encode())
        handles[i] = subprocess.Popen(handles[i].args, env=variables, stdout=output, stderr=output)
    return handles[i]


def _appending(log: pathlib.Path) -> IO[bytes]:
    """Opens a process's log for its next life, which must not depend on a disk that is full, or read-only by now."""
    try:
        return open(log, "ab", buffering=0)
    except OSError:
        return open(os.devnull, "wb", buffering=0)
