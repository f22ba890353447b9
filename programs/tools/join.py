"""Adds actors to a running program, on its machine or another one, until it ends or they are asked to leave.

./run boonta join runs/muzero-catch --actors 2
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

import tyro

from boonta.nodes.rpc import keys
from boonta.nodes.rpc.client import Client
from boonta.nodes.rpc.errors import RpcError
from boonta.programs.wiring.command_line.faults import command, require_at_least
from boonta.programs.wiring.joining import FILE, Servers, read_servers, require_joinable
from boonta.programs.wiring.machine import network
from boonta.programs.wiring.run import BadInput, override_of
from boonta.programs.wiring.run_folder.config_file import PROCESS_ENV, Config, read_config
from boonta.programs.wiring.run_folder.provenance import differs_from
from boonta.programs.wiring.supervision import dependent
from boonta.programs.wiring.supervision.interrupts import ASKED_TO_END, Signals
from boonta.programs.wiring.trained import program_of

ANSWER_S = 15.0  # Deadline for the monitor's answer.
POLL_S = 0.2
KILL_S = 20.0  # Time from the signal to SIGKILL; a node that isn't stuck ends by itself within half of it.


def join(workdir: tyro.conf.Positional[pathlib.Path], actors: int = 1, group: str = "actor") -> None:
    """Adds actors to a running program, until it ends or they are asked to leave, by Ctrl-C or SIGTERM.

    They have numbers beyond those of the actors that are there, and the program goes on whatever becomes of them; what
    they have counted stays counted. Who hasn't left 20 s after a signal is killed. The exit code is 0 when the program
    has done its work or they have left.

    Args:
      workdir: the run's folder; on another machine the same one, if they share it, or one with a copy of its
        config.json, servers.json and rpc.pem.
      actors: number of actors, at least 1.
      group: label of the group that they join.
    """
    require_at_least(1, actors=actors)
    config = read_config(workdir)
    declared = require_joinable(program_of(workdir, config), group).number
    config = _without_secrets(config, group)
    servers = read_servers(workdir)
    # Between machines the monitor refuses nodes of another source.
    if servers.local and config.provenance and (told := differs_from(config.provenance, config.program_file)):
        print(f"warning: {told}", file=sys.stderr, flush=True)
    signals = Signals()
    first = _admitted(workdir, servers, group, declared, actors)
    commands = {f"{group}/{i}": _command(config, workdir, servers, group, i) for i in range(first, first + actors)}
    print(f"{', '.join(commands)} join the run in {workdir}; Ctrl-C makes them leave", flush=True)
    # Ctrl-C reaches all processes of a terminal's session, and only this one handles it.
    nodes = {name: subprocess.Popen(words, start_new_session=True) for name, words in commands.items()}
    sys.exit(_stay(nodes, signals))


def _without_secrets(config: Config, group: str) -> Config:
    """The run's config without the variables whose values aren't recorded: nodes inherit them from this process.

    Raises:
      BadInput: one of the group's isn't set here.
    """
    unrecorded = [word for word in config.run.get("process_env", ()) if not any(override_of(word))]
    names = [name for label, _, name in (word.partition(":") for word in unrecorded) if label == group]
    if missing := [name for name in names if name not in os.environ]:
        raise BadInput(
            f"{', '.join(missing)} must be set here, as the run's {PROCESS_ENV} does for {group!r}: config.json "
            f"doesn't have the value, which may be a secret. Give the command as {missing[0]}=… boonta join …"
        )
    return dataclasses.replace(config, arguments=tuple(word for word in config.arguments if word not in unrecorded))


def _admitted(workdir: pathlib.Path, servers: Servers, group: str, declared: int, actors: int) -> int:
    """The first of so many numbers that the program's monitor keeps for them.

    Raises:
      BadInput: it doesn't answer.
    """
    key = None if servers.local else str(workdir / keys.FILE)
    try:
        first: int = Client(servers.addresses["monitor"], ANSWER_S, key).admit(group, declared, actors)
        return first
    except (RpcError, OSError) as error:
        raise BadInput(f"the program of {workdir} doesn't answer, so nothing can join it: {error}") from error


def _command(config: Config, workdir: pathlib.Path, servers: Servers, group: str, i: int) -> list[str]:
    """The command of a node that joins, and ends with this process; of a program in a network of its own, in there."""
    folder = workdir.absolute()
    within = [sys.executable, "-I", "-S", network.__file__, network.OF, str(servers.process)] if servers.process else []
    words = ["-m", "boonta.deploy.node", str(config.program_file), "--label", group, "--index", str(i)]
    node = dependent.command(sys.executable, *words)  # Not before `within`: who enters a network may lose the tie.
    where = ["--hosts", str(folder / FILE), *([] if servers.local else ["--key", str(folder / keys.FILE)])]
    tunnel = ["--tunnel"] if servers.tunnel else []
    return [*within, *node, *where, *tunnel, "--", *config.arguments, "--workdir", str(folder)]


def _stay(nodes: Mapping[str, subprocess.Popen], signals: Signals) -> int:
    """Waits until all nodes have ended; passes a signal on to them, and kills who stays; returns the exit code."""
    asked, kill_at = False, math.inf
    while left := {name: node for name, node in nodes.items() if node.poll() is None}:
        if signals.number and not asked:
            asked, kill_at = True, time.monotonic() + KILL_S
            for node in left.values():
                node.terminate()
        if time.monotonic() > kill_at:
            print(f"{', '.join(left)} did not leave within {KILL_S:g} s: killed", file=sys.stderr, flush=True)
            for node in left.values():
                os.killpg(node.pid, signal.SIGKILL)  # With the processes of its environments.
                node.wait()
        time.sleep(POLL_S)
    sound = {0, *(ASKED_TO_END if asked else ())}
    failed = {name: node.returncode for name, node in nodes.items() if node.returncode not in sound}
    for name, code in failed.items():
        print(f"error: {name} ended with code {code}", file=sys.stderr)
    return 1 if failed else 0


main = functools.partial(command, join, ValueError)
