"""Flags that other libraries have, and what is called otherwise here; tyro finds no flag that is like them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Sequence

from boonta.agents.config import leaves
from boonta.programs.wiring.run import BadInput

FIELDS = {"lr": "learning_rate", "gamma": "discount"}  # Fields of configs, by what others call them.


def refuse_usual(words: Sequence[str], parameters: Sequence[inspect.Parameter], file: str) -> None:
    """Refuses flags that a newcomer expects and the program doesn't have.

    Args:
      words: the command line.
      parameters: the program function's, with their defaults.
      file: the name of the program's file if its first word is the environment; else empty.

    Raises:
      BadInput: the message has what to write instead.
    """
    own = {parameter.name for parameter in parameters}
    for word, following in zip(words, [*words[1:], ""]):
        flag, _, value = word.removeprefix("--").partition("=")
        if flag == "env" and word.startswith("--") and file:
            value = value or following
            name = "ENVIRONMENT" if not value or value.startswith("-") else value
            raise BadInput(f"--env is no flag: the environment is the first word, as in {file} {name}")
        if flag in FIELDS and word.startswith("--") and flag not in own:
            flags = [f"--{name}".replace("_", "-") for name in _named(FIELDS[flag], parameters)]
            if flags:
                raise BadInput(f"--{flag} is no flag; did you mean {' or '.join(flags)}?")


def _named(field: str, parameters: Sequence[inspect.Parameter]) -> list[str]:
    """The dotted names of the parameters' fields of this name."""
    groups = {each.name: each.default for each in parameters if dataclasses.is_dataclass(each.default)}
    return [
        f"{name}.{leaf}" for name, group in groups.items() for leaf in leaves(group) if leaf.split(".")[-1] == field
    ]
