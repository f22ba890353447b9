"""Runs one of Boonta's programs by its name, from any folder.

./run boonta train impala atari/Pong
"""

from __future__ import annotations

import os
import pathlib
import sys

from boonta.envs.base import suggest
from boonta.programs.wiring.command_line.faults import refusing
from boonta.programs.wiring.run import BadInput
from boonta.programs.wiring.shipped import programs


def command_of(arguments: list[str]) -> list[str]:
    """The command that runs a program's file.

    Args:
      arguments: the program's name or file, and its own arguments.

    Raises:
      BadInput: there is no such program.
    """
    name, *rest = arguments or [""]
    known = programs()
    file = pathlib.Path(name) if name.endswith(".py") else known.get(name.replace("-", "_"))
    if file is not None and name.endswith(".py") and not file.is_file():
        there = dict.fromkeys(known) | {each.stem: str(each) for each in sorted(file.parent.glob("*.py"))}
        raise BadInput(f"there is no file {name}: {suggest(file.stem, there, lambda stem: there[stem] or stem)}")
    if file is None:
        own = f"{name}.py" if pathlib.Path(f"{name}.py").exists() else "the path of a file of your own"
        raise BadInput(f"program {name!r} is unknown: {suggest(name, known)} Or give {own}.")
    return [sys.executable, str(file), *rest]


def main() -> None:
    """The command line of `train`: the process becomes the program's."""
    if sys.argv[1:2] in ([], ["-h"], ["--help"]):
        print(f"Usage: boonta train PROGRAM [ENVIRONMENT] [FLAG...]\n\nPrograms: {', '.join(programs())}.")
        sys.exit(0 if sys.argv[1:] else 2)
    with refusing():
        command = command_of(sys.argv[1:])
    os.execv(command[0], command)
