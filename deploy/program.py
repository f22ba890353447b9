"""Builds a program from its file and flags, in the same way on every host."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import pathlib
import shlex
import typing
from collections.abc import Sequence
from typing import Any, NamedTuple

from boonta.deploy import core
from boonta.programs.wiring import devices, launch, several
from boonta.programs.wiring.command_line.arguments import function_of, parse
from boonta.programs.wiring.interpreters.local import group_environment
from boonta.programs.wiring.joining import with_joined
from boonta.programs.wiring.machine import accelerators
from boonta.programs.wiring.program import Program, ProgramFunction
from boonta.programs.wiring.run import UNITS, BadInput, Run
from boonta.programs.wiring.run_folder.provenance import source_here


class Built(NamedTuple):
    """A program, and what it was built from.

    Attributes:
      function: the program function.
      run: where and how long the program runs.
      settings: the function's other arguments.
      program: what the function returned.
      environment: environment variables of each group's processes.
    """

    function: ProgramFunction
    run: Run
    settings: dict[str, Any]
    program: Program
    environment: dict[str, dict[str, str]]


def build(file: pathlib.Path, flags: Sequence[str]) -> Built:
    """Builds the program that `./run python FILE FLAGS` would launch.

    Args:
      file: the program's file; its function has the file's name.
      flags: the program's own flags. Wrong ones end the process with an error and code 2.

    Raises:
      BadInput: the file or the function in it doesn't exist, a path isn't absolute, or the result can't be spread over
        hosts.
      ValueError: the program refuses its settings.
    """
    function = function_of(file)
    _require_absolute(function, flags)
    run, settings = parse(function, list(flags))
    program = function(run=run, **settings)
    if not isinstance(program, Program):
        raise BadInput(f"{file} makes a {type(program).__name__}, not a Program for hosts to share")
    if run.launch not in (*UNITS, "local_mp"):
        raise BadInput(
            f"--launch {run.launch} is for one machine; leave it out, so that each host runs its own node, or "
            f"choose one of {', '.join(UNITS)}"
        )
    if run.is_unit:
        launch.require(program)
        return Built(function, run, settings, program, {})
    return Built(function, run, settings, program, group_environment(program))


def spread(file: pathlib.Path, flags: Sequence[str]) -> Built:
    """Builds the program like `build`; its nodes are to run on hosts of their own.

    Raises:
      BadInput: the program is one process per host.
      ValueError: it has several nodes of a kind of which it can have one.
    """
    built = build(file, flags)
    if built.run.is_unit:
        raise BadInput(
            f"--launch {built.run.launch} makes one process per host: start it there with ./run python {file}"
        )
    several.check(built.program)
    return built


def environment_of(built: Built, hosts: str, task: core.Task, tasks: tuple[core.Task, ...]) -> dict[str, str]:
    """The environment variables of a node on this host: its group's, and those by which it sees its GPUs.

    Nodes that join get GPUs in turn, whoever else uses them.

    Args:
      built: the program.
      hosts: the hosts of all nodes, see `core.hosts_of`.
      task: the node.
      tasks: all tasks of the program.

    Raises:
      BadInput: the machine has too few GPUs for the nodes that share it.
    """
    if core.is_pattern(hosts):  # The platform has given GPUs to each node's own host.
        return built.environment[task.label]
    entered: dict[str, str] = json.loads(os.environ[core.ENTERED])
    if accelerators.VISIBLE in entered:  # This process sees its own GPUs alone.
        return entered
    gpus = accelerators.visible_gpus()
    if task.joined:
        program, names = with_joined(built.program, task.label, task.index), [task.name]
        turn = task.index % max(1, len(gpus))
        gpus = gpus[turn:] + gpus[:turn]
    else:
        program, places = built.program, core.hosts_of(hosts, tasks)
        names = [each.name for each in tasks if places[each] == places[task]]
    return devices.on_machine(program, built.environment, names, gpus)[task.name]


def workdir_of(flags: Sequence[str]) -> str | None:
    """The --workdir among a program's flags; None if there is none, empty if it has no value."""
    return _folder_of("workdir", flags)


def _folder_of(name: str, flags: Sequence[str]) -> str | None:
    """The value of the flag --NAME; None if it isn't there, empty if it has no value."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", nargs="?", const="", dest="folder")
    return parser.parse_known_args(flags)[0].folder


def _require_absolute(function: ProgramFunction, flags: Sequence[str]) -> None:
    """Refuses paths that depend on the folder in which a command is given: nodes run in the repository's.

    These are --start-from and the program's own arguments that are paths, such as --data of programs/unplugged.py.

    Raises:
      BadInput: one isn't absolute.
    """
    hints = inspect.get_annotations(function, eval_str=True)
    paths = [name for name, hint in hints.items() if pathlib.Path in (hint, *typing.get_args(hint))]
    for flag in ("start-from", *(name.replace("_", "-") for name in paths)):
        given = _folder_of(flag, flags)
        if given and not (path := pathlib.Path(given).expanduser()).is_absolute():
            raise BadInput(f"--{flag} is {given!r}; it must be absolute for all machines, from here {path.absolute()}")


def require_shared_workdir(flags: Sequence[str]) -> None:
    """Refuses flags without a --workdir that is the same folder for all machines.

    Raises:
      BadInput: there is none, or it depends on the folder in which a command is given.
    """
    workdir = workdir_of(flags)
    if workdir is None:
        raise BadInput("--workdir is missing after --: name a folder that all machines share, to go on from")
    if not pathlib.Path(workdir).is_absolute():
        raise BadInput(f"--workdir is {workdir!r}; it must be absolute, a folder that all machines share")


def host_flags(first: str, port: int | str, number: int, index: int | str) -> list[str]:
    """The flags that a program takes on each of several hosts; none for one host.

    Args:
      first: the first host's name. This and the others may be a variable of the command instead.
      port: a free port of the first host.
      number: the number of hosts.
      index: this host's number.
    """
    flags = {"coordinator": f"{first}:{port}", "number": number, "index": index}
    return [word for name, value in flags.items() for word in (f"--hosts.{name}", str(value))] if number > 1 else []


def made_by(command: str, arguments: Sequence[str], file: pathlib.Path) -> str:
    """A comment for a deployment's file: the command that made it, and the source that did.

    Args:
      command: the module that was run, such as "boonta.deploy.slurm".
      arguments: its words.
      file: the file of the program or sweep among them.
    """
    words = " ".join(shlex.join(["python", "-m", command, *arguments]).split("\n"))  # It must stay one line.
    return f"# Made by `{words}` of {source_here(file)}"
