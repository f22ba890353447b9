"""Runs a program on machines that are already held, such as TPU VMs: each node over an SSH connection of its own.

    ./run python -m boonta.deploy.tpu_vm programs/impala_atari.py --hosts vm-0,vm-1 --learner-host vm-0 -- --actors 8

There is no supervision: this process starts the nodes, shows what they print, and reports at once how each ends. A node
that dies is not started again. The program goes on without one of `deploy.core.DISPENSABLE` roles; when another ends,
the rest have `deploy.core.END_S`, or a few seconds if it has refused the run by code 2. Without a terminal, SSH passes
no signals on; so each node's standard input is its connection, at whose end it saves and ends. Ctrl-C here ends all of
them so, as does whatever else ends this process. Where a network breaks, nodes end once their machine's sshd notices,
which its `ClientAliveInterval` decides.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Sequence
from typing import IO, NamedTuple

import tyro

from boonta.deploy import core
from boonta.deploy.program import Built, build, host_flags
from boonta.nodes.rpc import keys
from boonta.programs.wiring.checks import check_nodes
from boonta.programs.wiring.command_line import faults
from boonta.programs.wiring.command_line.arguments import split_flags
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.run_folder.journal import outliving_terminal
from boonta.programs.wiring.run_folder.provenance import ROOT, from_root
from boonta.programs.wiring.supervision import interrupts

# A silent connection counts as broken after 45 s; a password is never asked for.
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3")
POLL_S = 0.5
REFUSED_S = 5.0  # Time for the nodes to end by themselves once one has refused the run: the others have begun nothing.


@dataclasses.dataclass(frozen=True)
class Machines:
    """Runs a program on machines that are already held. The program's flags follow `--`.

    Attributes:
      program: the program's file, such as programs/impala_atari.py.
      hosts: names separated by commas, valid for SSH here and among the machines; nodes are dealt over them in turn.
      learner_host: the one that gets the learner, and nothing else if there are others; of several learners the names,
        separated by commas, of a host for each. If it is empty, the first ones.
      root: the repository's path, on all of them.
      base_port: servers listen on this port and those after it.
      tunnel: the tables are reached through a tunnel that asks for the run's key. With --no-tunnel, whoever reaches the
        replay server's machine can use them; it spares that machine a C compiler, and each call 0.2 ms.
    """

    program: tyro.conf.Positional[pathlib.Path]
    hosts: str
    learner_host: str = ""
    root: pathlib.Path = ROOT
    base_port: int = core.BASE_PORT
    tunnel: bool = True

    def __post_init__(self) -> None:
        for name in self.names:
            if self.names.count(name) > 1:
                raise BadInput(f"--hosts has {name!r} twice; name each machine once")

    @property
    def names(self) -> list[str]:
        """The hosts' names."""
        return [host.strip() for host in self.hosts.split(",")]


class Nodes(NamedTuple):
    """The nodes that are to run.

    Attributes:
      commands: the command that starts each node, by the node's name.
      dispensable: the names of those without which the program goes on.
    """

    commands: dict[str, list[str]]
    dispensable: Collection[str] = ()


def prepare(machines: Machines, flags: Sequence[str]) -> Nodes:
    """Builds the program, and the commands that start its nodes.

    Raises:
      BadInput, ValueError: the program could not run.
    """
    if machines.root == ROOT and not (ROOT / "run").exists():
        raise BadInput(f"{ROOT} has no ./run, which starts the nodes: give --root, a clone on all of the machines")
    built = build(machines.program, flags)
    starts = _units(machines, flags) if built.run.is_unit else _nodes(machines, built, flags)
    # Modules of one's own are found in the folder of this command.
    path = f'PYTHONPATH={shlex.quote(os.getcwd())}"${{PYTHONPATH:+:$PYTHONPATH}}"'
    found = {}
    for name, (host, words) in starts.items():
        command = shlex.join(["./run", "python", *words])
        remote = f"cd {shlex.quote(str(machines.root))} && exec {shlex.join(_variables())} {path} {command}"
        found[name] = [*SSH, host, remote]
    tasks = () if built.run.is_unit else core.plan(built.program)
    return Nodes(found, [task.name for task in tasks if task.is_dispensable])


def _variables() -> list[str]:
    """The start of a command with environment variables, of which SSH passes none on.

    What has chosen the Python and the accelerator of ./run here chooses the machines', too.
    """
    chosen = [f"{name}={os.environ[name]}" for name in ("BOONTA_JAX", "BOONTA_PYTHON") if os.environ.get(name)]
    return ["env", f"{interrupts.CONNECTED}=1", *chosen]


def _nodes(machines: Machines, built: Built, flags: Sequence[str]) -> dict[str, tuple[str, list[str]]]:
    """The host of each node and the arguments that start it there, by the node's name."""
    check_nodes(built.program)
    tasks = core.plan(built.program, machines.base_port)
    core.hosts_of(machines.hosts, tasks)  # It refuses what names no host.
    learns = _learner_hosts(machines, sum(task.decides for task in tasks))
    others = [host for host in machines.names if host not in learns] or machines.names
    dealt = itertools.cycle(others)
    hosts = [learns[task.index] if task.decides else next(dealt) for task in tasks]
    start = ["-m", "boonta.deploy.node", str(from_root(machines.program))]
    found = {}
    for task, host in zip(tasks, hosts):
        own = ["--label", task.label, "--index", str(task.index), "--hosts", ",".join(hosts), "--key", "-"]
        own += ["--tunnel"] if machines.tunnel else []
        found[task.name] = (host, [*start, *own, "--base-port", str(machines.base_port), "--", *flags])
    return found


def _learner_hosts(machines: Machines, number: int) -> list[str]:
    """The hosts of `number` learners.

    Raises:
      BadInput: there are fewer or more, or one isn't among the machines.
    """
    given = machines.learner_host
    learns = [host.strip() for host in given.split(",")] if given else machines.names[:number]
    strange = [host for host in learns if host not in machines.names]
    if strange:
        raise BadInput(f"--learner-host {strange[0]!r} is none of --hosts {machines.hosts}")
    if len(set(learns)) < number or (given and len(learns) > max(1, number)):
        raise BadInput(f"{', '.join(learns)} can't be the hosts of {number} learners: each needs one of its own")
    return learns


def _units(machines: Machines, flags: Sequence[str]) -> dict[str, tuple[str, list[str]]]:
    """The same for a program of threads, all of which runs on every host."""
    hosts = machines.names
    core.hosts_of(machines.hosts, ())  # It refuses what names no host.
    places = (host_flags(hosts[0], machines.base_port, len(hosts), index) for index in range(len(hosts)))
    file = str(from_root(machines.program))
    return {f"unit/{i}": (host, [file, *flags, *own]) for i, (host, own) in enumerate(zip(hosts, places))}


def run(nodes: Nodes) -> int:
    """Runs the nodes until all have ended.

    Returns:
      The bad exit code of the first that the program needed; 130 after Ctrl-C, or else 0.
    """
    key = keys.new()  # No file on any machine has it.
    left = {name: _start(name, command, key) for name, command in nodes.commands.items()}
    codes: list[int] = []  # Of those that it needed, in the order of their ends.
    interrupted = False
    try:
        _wait(left, nodes.dispensable, codes)
    except KeyboardInterrupt:
        interrupted = True
        codes.append(interrupts.CODE)
        _report("interrupted: the nodes are asked to save and to end")
    for process in left.values():
        process.terminate()  # This breaks the connection, which ends the node.
    for name, process in left.items():
        process.wait()
        codes += [] if interrupted else _ended(name, process, nodes.dispensable)
    return next((code for code in codes if code), 0)


def _start(name: str, command: list[str], key: bytes) -> subprocess.Popen:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdin is not None and process.stdout is not None
    threading.Thread(target=_echo, args=(name, process.stdout), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):  # It has ended already; its exit code has the reason.
        os.write(process.stdin.fileno(), key)  # A pipe has room for it. It stays open: its end is the node's.
    return process


def _echo(name: str, lines: IO[bytes]) -> None:
    for line in lines:
        with outliving_terminal():  # A node whose output nobody reads would come to a stop.
            print(f"{name}: {line.decode(errors='replace')}", end="", flush=True)


def _wait(left: dict[str, subprocess.Popen], dispensable: Collection[str], codes: list[int]) -> None:
    """Waits until all have ended, for at most `core.END_S` once one has that the program needed, `REFUSED_S` by code 2.

    Args:
      left: the nodes that run; those that end are taken out.
      dispensable: the names of those without which the program goes on.
      codes: gets the exit codes of the others, in the order of their ends.
    """
    end = math.inf
    while left and time.monotonic() < end:
        for name in [name for name, process in left.items() if process.poll() is not None]:
            codes += _ended(name, left.pop(name), dispensable)
        if codes:
            end = min(end, time.monotonic() + (REFUSED_S if 2 in codes else core.END_S))
        time.sleep(POLL_S)


def _ended(name: str, process: subprocess.Popen, dispensable: Collection[str]) -> list[int]:
    """Prints how a node has ended, if badly; returns the exit code if the program needed it, or none."""
    code = process.returncode
    if code:
        _report(f"{name} ended with code {code}")
    return [] if name in dispensable and code != 2 else [code]  # Bad input stays bad.


def _report(line: str) -> None:
    with outliving_terminal():
        print(line, file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Runs the command line; the exit code is that of `run`, or 2 for bad input."""
    own, flags = split_flags(arguments)
    try:
        nodes = prepare(tyro.cli(Machines, prog="python -m boonta.deploy.tpu_vm", args=own), flags)
    except (BadInput, ValueError) as error:
        faults.tell(error)
        return 2
    interrupts.handle(signal.default_int_handler, interrupts.TERMINATING)  # They then act like Ctrl-C.
    return run(nodes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
