"""The page that `--help` of a program shows: the basics. `--help-all` shows every flag."""

from __future__ import annotations

import dataclasses
import inspect
import shutil
import textwrap
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import docstring_parser
import tyro

from boonta.agents.config import leaves
from boonta.programs.wiring.pace import Pace
from boonta.programs.wiring.run import Run

ALL = "--help-all"
HELP = ("-h", "--help")
BASICS = ("launch", "workdir", "seed", "stop", "log")  # The fields of `Run` on the page.
MOST_COLUMNS = 100  # Lines of text that are wider are hard to read.
NAMES = 18  # Columns of the flags that aren't on the page.


def asked(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for the page."""
    return any(word in HELP for word in arguments) and ALL not in arguments


def short(parameter: inspect.Parameter) -> inspect.Parameter:
    """A program function's parameter as the page shows it: of `Run` the basics, of other groups of flags nothing."""
    if isinstance(parameter.default, Run) or parameter.name == "run":
        basics = _basics()
        if isinstance(parameter.default, Run):
            parameter = parameter.replace(default=basics(**vars(parameter.default)))
        return parameter.replace(annotation=Annotated[basics, tyro.conf.arg(name="")])
    if _is_group(parameter.default):
        return parameter.replace(annotation=Annotated[parameter.annotation, tyro.conf.Suppress])
    return parameter


def folded(function: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> str:
    """What isn't on the page, as its last lines.

    Args:
      function: the program function, whose docstring describes its parameters.
      parameters: these, with their defaults.
    """
    words = described(function)
    lines = [f"{ALL} also shows:"]
    for parameter in parameters:
        if parameter.name != "run" and _is_group(parameter.default):
            text = words.get(parameter.name, (inspect.getdoc(type(parameter.default)) or "").partition("\n")[0])
            lines.append(_line(f"--{parameter.name}.…", parameter.default, text))
    own = described(Run)
    for field in dataclasses.fields(Run):
        if field.name not in BASICS:
            flag = f"--{field.name.replace('_', '-')}"
            lines.append(_line(f"{flag}.…" if _is_group(field.default) else flag, field.default, own[field.name]))
    return "\n".join(lines)


def _line(flag: str, default: Any, text: str) -> str:
    """A flag, or a group of flags with their number, and the first sentence about it."""
    sentence = " ".join(text.split()).partition(". ")[0].partition("; ")[0].removesuffix(".")
    count = f" ({len(leaves(default))} flags)" if _is_group(default) else ""
    line = f"  {flag:{NAMES}}  {sentence[:1].upper()}{sentence[1:]}{count}."
    columns = min(MOST_COLUMNS, shutil.get_terminal_size().columns)
    return textwrap.fill(line, columns, subsequent_indent=" " * (NAMES + 4))


def described(documented: Any) -> dict[str, str]:
    """The descriptions of a function's parameters, or a class's attributes, in its docstring."""
    parsed = docstring_parser.parse(inspect.getdoc(documented) or "")
    return {name.strip(): each.description or "" for each in parsed.params for name in each.arg_name.split(",")}


def _is_group(value: Any) -> bool:
    """Whether a setting has fields, whose flags begin with its name."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type | Pace)


def _basics() -> type[Run]:
    """The class `Run` with all fields but the basics hidden."""
    hints = typing.get_type_hints(Run, include_extras=True)
    hidden = {name: Annotated[hint, tyro.conf.Suppress] for name, hint in hints.items() if name not in BASICS}
    made = type("Run", (Run,), {"__annotations__": hidden, "__doc__": Run.__doc__, "__module__": Run.__module__})
    return dataclasses.dataclass(frozen=True)(made)
