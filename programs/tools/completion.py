"""Prints what a shell needs to complete the command `boonta`: its tools, programs, environments and flags.

./run boonta completion bash
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import operator
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from boonta.__main__ import TOOLS
from boonta.programs.tools.sweep import Asked
from boonta.programs.wiring.command_line.faults import command
from boonta.programs.wiring.environments import EXAMPLES
from boonta.programs.wiring.run import NAMED, Which
from boonta.programs.wiring.shipped import programs

Shell = Literal["bash", "zsh"]
OFFERED = ConstructorRegistry()  # What is offered for values that may be others, too.


def completion(shell: tyro.conf.Positional[Shell]) -> None:
    """Prints a shell's script for completing `boonta`, see the page of your shell for where it reads such files from.

    With bash, `boonta completion bash >~/.local/share/bash-completion/completions/boonta` is enough; with zsh,
    `boonta completion zsh >FOLDER/_boonta`, for a folder in its `fpath`.

    Args:
      shell: the shell.
    """
    made = io.StringIO()
    with contextlib.redirect_stdout(made), contextlib.suppress(SystemExit):
        given = ["--tyro-print-completion", shell]
        tyro.extras.subcommand_cli_from_dict(tools(), prog="boonta", args=given, registry=OFFERED)
    # Tyro's script offers each line of a description as a word of its own.
    print(re.sub(r"(?m)^COMPLETION_SPEC = .*$", lambda line: line[0].replace(r"\n", " "), made.getvalue()))


@OFFERED.primitive_rule
def _which_rule(kind: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    """The words for a checkpoint: tyro offers nothing where a number is allowed, too."""
    if kind.type != Which:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="|".join((*NAMED, "INT")),
        instance_from_str=lambda words: words[0],
        is_instance=lambda value: value in NAMED,
        str_from_instance=lambda value: [str(value)],
        choices=NAMED,
    )


def tools() -> dict[str, Callable[..., Any]]:
    """Functions with the arguments of all tools; those whose packages are missing here are left out."""
    own: dict[str, Callable[..., Any]] = {
        "train": _train(),
        "sweep": Asked,
        "list": _plain,
        "doctor": _doctor,
        "completion": completion,
    }
    found = dict(own)
    for name in TOOLS:
        if name not in own:
            with contextlib.suppress(ImportError):
                found[name] = getattr(importlib.import_module(f"boonta.programs.tools.{name}"), name)
    return found


def _train() -> Callable[..., None]:
    """`train` with the names that it takes, as tyro completes subcommands alone; `--help` shows a program's flags."""

    def train(program: Any) -> None:
        del program

    environments = _choice({name: _plain for name in EXAMPLES})

    def environment(env: Any) -> None:
        del env

    environment.__annotations__["env"] = environments
    train.__annotations__["program"] = _choice({name: environment for name in programs()})
    return train


def _choice(options: dict[str, Callable[..., Any]]) -> Any:
    """A type that is one of several subcommands, by name."""
    named = [
        Annotated[Any, tyro.conf.subcommand(name, constructor=each, prefix_name=False)]
        for name, each in options.items()
    ]
    return functools.reduce(operator.or_, named)


def _plain() -> None:
    """A tool without arguments."""


def _doctor(json: bool = False) -> None:
    """See `doctor`."""
    del json


main = functools.partial(command, completion)
