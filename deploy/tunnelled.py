"""Keeps the tables of a program on several hosts to those who have the run's key: Reverb itself asks nobody.

Where nodes are started with `--tunnel`, each replay server listens on the loopback device of its host alone, and a
tunnel leads to it from every other node.
"""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

from boonta.deploy.core import Task
from boonta.nodes.rpc import tunnel, wire
from boonta.nodes.watch import ending
from boonta.programs.wiring.machine import network
from boonta.programs.wiring.run import BadInput

EXIT = "BOONTA_EXIT"  # Set in a replay server's process: the descriptor of the socket where its tunnel's exit listens.
TABLES = "replay"  # The label of the replay servers.


def keeps_tables(name: str) -> bool:
    """Whether a node is a replay server: "replay", or "replay/0" where there are several."""
    return name.partition("/")[0] == TABLES


def reach(tunnel: bool) -> str:
    """Who can use a program's tables, for the run's first line."""
    if not tunnel:
        return "the tables are open to whoever can reach the replay server's port"
    return "the tables are open to whoever has the run's key, and to other users of the replay server's machine"


class Route:
    """How one node of a program gets to the tables through a tunnel, or how others get to those that it keeps.

    Args:
      task: the node.
      tasks: all nodes of the program.
      key: the file of the run's key.
    """

    def __init__(self, task: Task, tasks: Sequence[Task], key: str):
        self._task = task
        self._key = key
        free = 1 + max(port for each in tasks for port in each.ports)  # No node listens there, or higher.
        self._inner_port = free + task.index  # Several replay servers may share a host.
        self._folder: tempfile.TemporaryDirectory | None = None
        self._exits: dict[str, str] = {}  # Exits by the addresses of their entrances.

    @property
    def is_exit(self) -> bool:
        """Whether others get through it to this node's tables: the node's port is the exit's, then."""
        return keeps_tables(self._task.name)

    def open(self, addresses: Mapping[str, str]) -> dict[str, str]:
        """Opens this node's end of the tunnel, which stays open until the process ends.

        Args:
          addresses: "host:port" by the name of the node that listens there.

        Returns:
          The addresses as this node is to use them.

        Raises:
          OSError: the end can't be opened.
        """
        if self.is_exit:
            listening = socket.socket(fileno=int(os.environ[EXIT]))
            tunnel.open_exit(listening, self._inner_port, self._key)
            return {**addresses, self._task.name: f"localhost:{self._inner_port}"}
        return {**addresses, **{name: self._enter(name, addresses[name]) for name in filter(keeps_tables, addresses)}}

    def _enter(self, name: str, address: str) -> str:
        """Opens the entrance of a replay server's tunnel; returns its address."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="boonta-")
            ending.at_end.append(self.close)  # The process may end at any time from here on, by a signal or a refusal.
        entrance = pathlib.Path(self._folder.name) / name.replace("/", "-")
        tunnel.open_entrance(entrance, address, self._key)
        self._exits[f"{wire.UNIX}{entrance}"] = address
        return f"{wire.UNIX}{entrance}"

    def beyond(self, servers: Sequence[str]) -> list[str]:
        """The addresses of these servers as other hosts know them."""
        return [self._exits.get(server, server) for server in servers]

    def close(self) -> None:
        """Removes the entrance."""
        if self._folder is not None:
            self._folder.cleanup()


def confined(task: Task) -> dict[str, str]:
    """Variables of the environment in which a replay server's process must start anew, or {} if it has them.

    They restrict its sockets to the loopback device, except the tunnel's exit, whose socket is made here.

    Raises:
      BadInput: this machine can't compile or load the library that does it.
      OSError: the port is taken.
    """
    if not keeps_tables(task.name) or EXIT in os.environ:
        return {}
    try:
        library = network.library()
    except (OSError, subprocess.SubprocessError) as error:
        raise BadInput(
            f"the replay server can't be kept to the loopback device: {error}. Mend that on its host, or let "
            "whoever reaches that host use the tables, without --tunnel"
        ) from error
    (port,) = task.ports
    try:
        listening = wire.listen(f":{port}")
    except OSError as error:
        raise OSError(f"port {port} for {task.name} is in use here; choose another --base-port") from error
    os.set_inheritable(listening.fileno(), True)
    return {EXIT: str(listening.detach()), network.PRELOAD: network.preloaded(library)}
