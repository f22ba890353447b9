"""Actors that join a running program, beyond those that the program names."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator

import pydantic

from boonta.nodes.rpc.wire import UNIX
from boonta.nodes.snapshots import files, schema
from boonta.nodes.tables.freshness import bounded
from boonta.programs.wiring.program import Group, Program, parameters
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.journal import LOG
from boonta.programs.wiring.slots import slots_of

MOST = 10_000  # Actors that may join, over the whole run.
# In the run's folder while the program runs; where nodes have commands of their own, until it is to end.
FILE = "servers.json"


@dataclasses.dataclass(frozen=True)
class Servers:
    """How a node that joins reaches a running program's servers.

    Attributes:
      addresses: by the name of the node that listens there, as `nodes.rpc.wire` has them; Reverb's is "host:port".
      tunnel: whether the tables are reached through a tunnel that asks for the run's key.
      process: id of a process in the program's own network; 0 if it has none.
    """

    addresses: dict[str, str]
    tunnel: bool = False
    process: int = 0

    @property
    def local(self) -> bool:
        """Whether they can be reached from the program's machine alone, without a key."""
        return self.addresses["monitor"].startswith(UNIX)

    @contextlib.contextmanager
    def shown(self, folder: pathlib.Path) -> Iterator[None]:
        """Keeps them in a run's folder meanwhile; a file that can't be written or removed is no reason to end a run."""
        file = folder / FILE
        try:
            files.write_json(file, dataclasses.asdict(self), synced=False)
        except OSError as error:
            LOG.warning("no node can join, since %s can't be written: %s", file, error)
        try:
            yield
        finally:
            hide(folder)


def hide(folder: pathlib.Path) -> None:
    """Removes what `Servers.shown` has written: a program that ends can't be joined, though it may still be saving."""
    with contextlib.suppress(OSError):
        (folder / FILE).unlink(missing_ok=True)


_SERVERS = pydantic.TypeAdapter(Servers)


def read_servers(folder: pathlib.Path) -> Servers:
    """The servers of the program that runs in a folder.

    Raises:
      BadInput: none runs there that can be joined.
    """
    try:
        servers = schema.load(_SERVERS, schema.read(folder / FILE))
        if "monitor" not in servers.addresses:
            raise ValueError("it has no address of the monitor")
        return servers
    except FileNotFoundError as error:
        why = f"the run has ended, or its nodes haven't started yet (there is no {FILE})"
        raise BadInput(f"no program that can be joined runs in {folder}: {why}") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"no program that can be joined runs in {folder}: {FILE} can't be read: {error}") from error


def require_joinable(program: Program, label: str) -> Group:
    """The group that actors are to join.

    Raises:
      BadInput: there is none, or its nodes can't join a running program; the message says why.
    """
    if program.run.launch != "local_mp":
        raise BadInput(
            f"--launch {program.run.launch} has all its actors from the start: only a program whose nodes have "
            "processes of their own (--launch local_mp, or a host for each node) can be joined"
        )
    group = next((each for each in program.groups if each.label == label), None)
    actors = [each.label for each in program.groups if each.node.role == "actor"]
    if group is None or group.label not in actors:
        raise BadInput(f"group {label!r} can't be joined; of this program's groups {actors or 'none'} can")
    if program.agent and (table := bounded(program.agent.tables)) is not None:
        raise BadInput(
            f"group {label!r} can't be joined: table {table.name!r} has max_staleness {table.max_staleness}, so that "
            "the actors' environments must fit its batch; start the program with more actors"
        )
    return group


def with_joined(program: Program, label: str, index: int) -> Program:
    """The program with a group large enough for a node that has joined it; only that node is to be made of it.

    Its slots are numbered from the number of all slots that the program names, so that the others' stay as they are.

    Raises:
      BadInput: see `require_joinable`; or the index is too large.
    """
    group = require_joinable(program, label)
    if index >= group.number + MOST:
        raise BadInput(f"index {index} is too large: at most {MOST:,d} nodes can join the {group.number} of {label!r}")
    settings = dict(group.settings)
    if "slots" in parameters(group.node):
        settings["slots"] = own = slots_of(program, group, index)
        if "num_envs" in parameters(group.node):
            settings["num_envs"] = own.size
    larger = dataclasses.replace(group, number=index + 1, settings=settings)
    groups = [larger if each.label == label else each for each in program.groups]
    return dataclasses.replace(program, groups=groups)
