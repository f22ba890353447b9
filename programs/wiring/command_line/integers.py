"""Integers on the command line, also as 1e6."""

from __future__ import annotations

import contextlib
import types
import typing
from typing import Any

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from boonta.envs.base import suggest

INTEGERS = ConstructorRegistry()  # For `tyro.cli`.


def integer(text: str) -> int:
    """The integer that a text has, in digits or as 1e6; a sweep's file has it as 1000000.0.

    Raises:
      ValueError: it has none.
    """
    try:
        return int(text)
    except ValueError:  # It may have an exponent.
        with contextlib.suppress(ValueError):
            if float(text).is_integer():
                return int(float(text))
    raise ValueError(f"{text!r} must be a whole number")


@INTEGERS.primitive_rule
def _integer_rule(kind: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    if kind.type is not int:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: integer(words[0]),
        is_instance=lambda value: isinstance(value, int) and not isinstance(value, bool),
        str_from_instance=lambda value: [str(value)],
    )


@INTEGERS.primitive_rule
def _integer_or_word_rule(kind: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    """An integer, or one of a few words or None; tyro's own rule tells what each type in the union finds wrong."""
    options = typing.get_args(kind.type) if typing.get_origin(kind.type) in (typing.Union, types.UnionType) else ()
    words = {"None": None} if types.NoneType in options else {}
    for option in options:
        words |= {each: each for each in typing.get_args(option)}
    rest = [each for each in options if each is not types.NoneType and typing.get_origin(each) is not typing.Literal]
    if rest != [int] or not words or not all(isinstance(each, str | None) for each in words.values()):
        return None

    def read(text: str) -> Any:
        if text in words:
            return words[text]
        try:
            return integer(text)
        except ValueError:
            near = "" if text[:1].isdigit() or words == {"None": None} else f": {suggest(text, words)}"
            raise ValueError(f"{text!r} must be a whole number, {' or '.join(words)}{near}") from None

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=f"{{{','.join(words)}}}|INT",
        instance_from_str=lambda given: read(given[0]),
        is_instance=lambda value: value in words.values() or (isinstance(value, int) and not isinstance(value, bool)),
        str_from_instance=lambda value: [str(value)],
    )
