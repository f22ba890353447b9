"""Runs one node of a program on this host; nodes on other hosts call it, or it calls them.

./run python -m boonta.deploy.node programs/impala.py --label actor --index 0 --hosts host1,host2 -- catch --actors 4
"""

from __future__ import annotations

from boonta.deploy import ends_early  # noqa: F401

# isort: split

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import ssl
import sys
from collections.abc import Mapping

import tyro

from boonta.deploy import core, tunnelled
from boonta.deploy.program import Built, environment_of, spread
from boonta.nodes.rpc import keys
from boonta.nodes.watch.ending import end_now
from boonta.nodes.watch.stopping import COLLAPSED_CODE
from boonta.programs.wiring import capacity
from boonta.programs.wiring.command_line import faults
from boonta.programs.wiring.command_line.arguments import origin_of, split_flags
from boonta.programs.wiring.interpreters.local import ON_CPU, ROLE_ENVIRONMENT
from boonta.programs.wiring.joining import FILE, Servers, hide, read_servers, with_joined
from boonta.programs.wiring.program import Program
from boonta.programs.wiring.run import BadInput, Run
from boonta.programs.wiring.run_folder import compiled, journal, session
from boonta.programs.wiring.run_folder.provenance import built_from
from boonta.programs.wiring.supervision import interrupts
from boonta.programs.wiring.supervision.trackers import Trackers


@dataclasses.dataclass(frozen=True)
class Place:
    """The node to run, and the hosts of all nodes.

    Attributes:
      program: the program's file, such as programs/impala.py.
      hosts: names separated by commas, over which the program's nodes are dealt in turn; or a pattern with {label} and
        {index} in it. The same on every host. To join a running program, also the path of its servers.json.
      label: the group of the node to run.
      index: the node's number in its group; an actor with a number beyond those joins the running program.
      base_port: servers listen on this port and those after it. The same on every host.
      reach_s: seconds to wait for the servers that the node calls.
      key: the file of the run's key, the same on every host, or - for the standard input. Default: rpc.pem in the run's
        folder, which the first node makes.
      tunnel: calls of the replay server need the key, too, and go through a tunnel with mutual TLS. The same on every
        host. Without it, whoever reaches the replay server's port can use the tables.
      starts_again: the platform starts each node again that ends, as a JobSet does. Then the program waits for one that
        a signal has ended, unless it is the learner. The same on every host.
    """

    program: tyro.conf.Positional[pathlib.Path]
    hosts: str
    label: str
    index: int = 0
    base_port: int = core.BASE_PORT
    reach_s: float = core.REACH_S
    key: str = ""
    tunnel: bool = False
    starts_again: bool = False


def main(arguments: list[str]) -> int:
    """Builds the program and runs the node; the exit code is that of `core.run`, 2 for bad input, 1 for other errors.

    It is 0 also where learning has collapsed, or a platform would start the node again; the log has the run's own code.
    """
    own, flags = split_flags(arguments)
    trackers, kept, begun = Trackers(), contextlib.ExitStack(), session.Session()
    place = tyro.cli(Place, prog="python -m boonta.deploy.node", args=own)
    if core.ENTERED not in os.environ:
        # This comes before the import of the program's file; a group with variables of its own gets them right below.
        _enter(ROLE_ENVIRONMENT.get(place.label, ON_CPU), arguments)
    try:
        built = spread(place.program, flags)
        made_of = built_from(built.function, built.run, built.settings)
        tasks = core.plan(built.program, place.base_port)
        task = core.find(tasks, place.label, place.index)
        environment = environment_of(built, place.hosts, task, tasks)
        if os.environ[core.ENTERED] != core.entered(environment):
            _enter(environment, arguments)  # Flags can change the variables, too.
        servers = _servers(place, tasks)
        if place.tunnel and (variables := tunnelled.confined(task)):
            _enter(environment, arguments, variables)
        key = None if servers.local else _key(place.key, built.run)
        interrupts.end_with_input()
        _check_memory(built.program, task)
        route = tunnelled.Route(task, tasks, key) if place.tunnel and key else None
        program = with_joined(built.program, task.label, task.index) if task.joined else built.program
        launchable = core.bind(program, servers.addresses, key, route, task.name)
        folder, monitors = pathlib.Path(built.run.workdir), task.label == "monitor"
        if monitors:
            if any(tunnelled.keeps_tables(each.name) for each in tasks):
                print(f"network: {tunnelled.reach(place.tunnel)}", flush=True)
            trackers.start(built.run)
            begun = kept.enter_context(_opened(built, flags))
    except (BadInput, ValueError, OSError, ImportError) as error:
        trackers.end()
        faults.tell(error)
        return faults.code_of(error)
    shown = servers.shown(folder) if monitors else compiled.kept_in(folder, claimed=False)
    with kept, trackers, shown:
        if monitors:
            with journal.outliving_terminal():
                print(f"run folder {folder}, {made_of}", flush=True)
        try:
            # On one machine, nodes are copies of the launcher's, and the monitor knows no description of them.
            build = "" if servers.local else made_of
            over = functools.partial(hide, folder)  # Where it isn't there, Slurm's tasks start no node again.
            code = core.run(launchable, task, tasks, build, place.reach_s, route, place.starts_again, over)
        except OSError as error:
            faults.tell(error)
            code = 1
        begun.code = code
    return 0 if code == COLLAPSED_CODE else code


def _opened(built: Built, flags: list[str]) -> contextlib.AbstractContextManager[session.Session]:
    """The session of the run, which is the monitor's: only this node has the run's folder to itself."""
    origin = origin_of(built.function, flags, built.program)
    return session.opened(built.program.name, built.run, built.settings, origin, "each node by a command of its own")


def _check_memory(program: Program, task: core.Task) -> None:
    """Warns of, or refuses, what this node keeps in this machine's memory; see `capacity.check`."""
    if tunnelled.keeps_tables(task.name) and (tight := capacity.check(program, apart=True)):
        journal.LOG.warning("%s", tight)
    if task.role == "learner":
        capacity.require_room_for_batches(program, learns_here=True)


def _servers(place: Place, tasks: tuple[core.Task, ...]) -> Servers:
    """Where the program's servers are, or will be.

    Raises:
      BadInput: `--hosts` doesn't say it.
    """
    file = pathlib.Path(place.hosts)
    if file.name == FILE:
        return read_servers(file.parent)
    return Servers(core.addresses_of(core.hosts_of(place.hosts, tasks)), place.tunnel)


def _key(given: str, run: Run) -> str:
    """The file of the run's key.

    Raises:
      BadInput: it doesn't exist, may not be read, or is no key.
      OSError: it can't be read or made.
    """
    if given == "-":
        given = keys.in_memory(keys.read(sys.stdin.buffer))  # Not to the end: a connection stays open.
    elif not given:
        given = run.path(keys.FILE)
        keys.make_once(pathlib.Path(given))
    try:
        keys.client_context(given)
    except OSError as error:
        if isinstance(error.__cause__, (FileNotFoundError, PermissionError, ssl.SSLError)):
            raise BadInput(str(error)) from error
        raise
    return given


def _enter(environment: dict[str, str], arguments: list[str], own: Mapping[str, str] | None = None) -> None:
    """Restarts this process with its group's environment variables, and its own: libraries read them when they load."""
    for name in json.loads(os.environ.get(core.ENTERED, "{}")):
        os.environ.pop(name, None)  # Those of its role, which may not be its own.
    os.environ.update({**environment, **(own or {}), core.ENTERED: core.entered(environment), "PYTHONUNBUFFERED": "1"})
    os.execv(sys.executable, [sys.executable, "-m", "boonta.deploy.node", *arguments])


if __name__ == "__main__":
    end_now(main(sys.argv[1:]))  # What Reverb's threads do while the interpreter ends must not change the code.
