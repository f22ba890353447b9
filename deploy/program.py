"""Builds a Launchpad program from its file and flags, alike on every host."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from boonta.nodes.services import Program
from boonta.programs.wiring.launch import group_environment
from boonta.programs.wiring.provenance import ROOT
from boonta.programs.wiring.run import BadInput, ProgramFunction, parse


class Built(NamedTuple):
    """A program, and what it was built from.

    Attributes:
      function: the program function.
      run: where and how long.
      settings: the function's other arguments.
      program: what it returned, a Launchpad program or one of threads; nothing of it runs yet.
      environment: variables of each group's processes.
    """

    function: ProgramFunction
    run: Any
    settings: dict[str, Any]
    program: Any
    environment: dict[str, dict[str, str]]


def split_flags(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """A command's own arguments, and those after `--`, which are the program's flags."""
    own = list(arguments)
    cut = own.index("--") if "--" in own else len(own)
    return own[:cut], own[cut + 1 :]


def build(file: pathlib.Path, flags: Sequence[str]) -> Built:
    """Builds the program that `./run python FILE FLAGS` would launch.

    Args:
      file: the program's; its function has the file's name.
      flags: as the program itself takes them. Wrong ones end the process with words and code 2.

    Raises:
      BadInput: the file or the function in it doesn't exist, or what it makes can't be spread over hosts.
      ValueError: the program refuses its settings.
    """
    function = _function(file)
    run, settings = parse(function, list(flags))
    program = function(run, **settings)
    if is_unit(program):
        return Built(function, run, settings, program, {})
    if not isinstance(program, Program):
        raise BadInput(f"{file} makes a {type(program).__name__}, not a Launchpad program for hosts to share")
    if run.launch != "local_mp":
        raise BadInput(f"--launch {run.launch} is for one machine; here each host runs its own node: leave it out")
    return Built(function, run, settings, program, group_environment(program, run))


def from_root(file: pathlib.Path) -> pathlib.Path:
    """The file as it is named within the repository, wherever that is on another host; absolute if it is not in it."""
    file = file.resolve()
    return file.relative_to(ROOT) if file.is_relative_to(ROOT) else file


def is_unit(program: Any) -> bool:
    """Whether a program's nodes are threads of one process, as those of `programs.wiring.sebulba.Sebulba` are."""
    return callable(getattr(program, "build", None))


def host_flags(first: str, port: int | str, number: int, index: int | str) -> list[str]:
    """The flags that a program of threads takes on each of several hosts; none on one.

    Args:
      first: name of the first host, or what stands for it in the command, as in all of these.
      port: free one of the first host's.
      number: of hosts.
      index: this host's number.
    """
    flags = {"coordinator": f"{first}:{port}", "number": number, "index": index}
    return [word for name, value in flags.items() for word in (f"--hosts.{name}", str(value))] if number > 1 else []


def require_span(worker: Any, name: str, number: int, asked: str) -> None:
    """Refuses several hosts for what doesn't say, by `spans_hosts`, that it can use them.

    Args:
      worker: a node's class, or a program of threads.
      name: of it.
      number: of hosts.
      asked: the setting that asks for them, as it is.

    Raises:
      BadInput: says so.
    """
    if number > 1 and not getattr(worker, "spans_hosts", False):
        raise BadInput(
            f"{asked}, and {name} works on one; ask for one (a slice of one host is 2x4, say), or take a program whose "
            "hosts are units (programs/sebulba_*.py)"
        )


def spread(file: pathlib.Path, flags: Sequence[str]) -> Built:
    """As `build`, for programs whose nodes are to run on hosts of their own.

    Raises:
      BadInput: this one's are threads of one process.
    """
    built = build(file, flags)
    if is_unit(built.program):
        raise BadInput(f"{file} makes a program of one process per host: start it there with ./run python {file}")
    return built


def _function(file: pathlib.Path) -> ProgramFunction:
    spec = importlib.util.spec_from_file_location(f"deployed_{file.stem}", file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise BadInput(f"program file {file} doesn't exist, or is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # as an import would: dataclasses look their module up
    spec.loader.exec_module(module)
    function = getattr(module, file.stem, None)
    if not callable(function):
        raise BadInput(f"program file {file} has no function {file.stem}(); the two must have the same name")
    return function
