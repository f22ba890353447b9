"""Flags that are true, false or None on the command line, also as `--x` and `--no-x`; tyro alone wants `--x True`."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any


def spelled_out(words: Sequence[str], hints: Mapping[str, Any]) -> list[str]:
    """The words of a command line, in which each such flag has the word that tyro wants.

    A sweep's file has true and false for these flags as for all others, and knows no types.

    Args:
      words: the command line.
      hints: by the first part of the flags' names, the type of what they set; "" for flags without a first part.
    """
    flags = {flag.replace("_", "-") for name, hint in hints.items() for flag in _flags(hint, name)}
    made: list[str] = []
    for word, following in zip(words, [*words[1:], "--"]):
        flag = word.removeprefix("--").replace("_", "-")
        group, dot, last = flag.rpartition(".")
        other = f"{group}{dot}{last.removeprefix('no-')}"
        if not word.startswith("--") or not {flag, other} & flags:
            made.append(word)
        elif flag not in flags:
            made += [f"--{other}", "False"]
        else:
            made += [word, "True"] if following.startswith("-") else [word]
    return made


def _flags(hint: Any, name: str) -> Iterator[str]:
    """The flags that may be true, false or None, of a type whose own flag has this name."""
    options = _options(hint)
    if set(options) == {bool, types.NoneType}:
        yield name
    for option in options:
        if dataclasses.is_dataclass(option):
            for field, inner in typing.get_type_hints(option, include_extras=True).items():
                yield from _flags(inner, f"{name}.{field}" if name else field)


def _options(hint: Any) -> list[Any]:
    """The types in a union, or the one that isn't any, without what is noted beside them."""
    while typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return [hint]
    return [inner for each in typing.get_args(hint) for inner in _options(each)]
